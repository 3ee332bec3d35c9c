//! The servers' containers, and what docker/'s scripts do to them. Servers of `tests/up` are
//! processes, which can be killed, paused and restarted as well.

use std::{net::SocketAddr, time::Duration};

use tokio::process::Command;

use crate::{Result, retry::retried};

/// The root of the repository.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Whether the servers are processes, which `tests/up --local` has started.
fn is_local() -> bool {
    std::env::var_os("DISTLOCK_LOCAL").is_some()
}

/// Fails a test that is about containers where there are none.
fn need_containers() {
    assert!(
        !is_local(),
        "this test needs Docker: it does with a container what tests/up cannot do with a process"
    );
}

/// The name of a server's container.
pub fn container(server: &str) -> String {
    need_containers();
    let project = std::env::var("COMPOSE_PROJECT_NAME").unwrap_or_else(|_| "distlock".to_owned());
    format!("{project}-{server}")
}

/// Runs docker, and returns what it says.
pub async fn docker(arguments: &[&str]) -> Result<String> {
    run(Command::new("docker").args(arguments)).await
}

/// Runs one of docker/'s scripts, and returns what it says.
pub async fn script(name: &str, arguments: &[&str]) -> Result<String> {
    need_containers();
    run(Command::new(path(name)).args(arguments)).await
}

/// The same for a shell.
pub async fn bash(arguments: &[&str]) -> Result<String> {
    run(Command::new("bash").args(arguments)).await
}

/// Where a file of docker/'s is.
pub fn path(file: &str) -> String {
    format!("{ROOT}/docker/{file}")
}

async fn run(command: &mut Command) -> Result<String> {
    let output = command.output().await.map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}

/// For a test, which fails without it.
pub(crate) fn done<T>(outcome: Result<T>) -> T {
    outcome.unwrap_or_else(|error| panic!("{error}"))
}

/// A server that is cut off from its peers. Healed at the end of the test, however it ends.
#[derive(Debug)]
pub struct Cut {
    server: &'static str,
    healed: bool,
}

impl Cut {
    /// Cuts it off.
    pub async fn off(server: &'static str) -> Self {
        let cut = Self { server, healed: false };
        done(script("cut", &[server]).await);
        cut
    }

    /// Heals it.
    pub async fn heal(mut self) {
        done(script("heal", &[self.server]).await);
        self.healed = true;
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        if !self.healed {
            let _ = std::process::Command::new(path("heal")).arg(self.server).output();
        }
    }
}

/// What kills, pauses or starts a server: docker, or the script that has started it.
fn order(command: &str, server: &str) -> std::process::Command {
    let (program, arguments) = if is_local() {
        (format!("{ROOT}/tests/up"), [format!("--{command}"), server.to_owned()])
    } else {
        ("docker".to_owned(), [command.to_owned(), container(server)])
    };
    let mut order = std::process::Command::new(program);
    order.args(arguments);
    order
}

/// Ends a server in good order and starts it again. It may take seconds until it serves.
pub async fn restart(server: &str) {
    done(run(&mut order("restart", server).into()).await);
}

/// A server that is down. It runs again at the end of the test, however it ends.
#[derive(Debug)]
pub struct Outage {
    server: &'static str,
    undo: &'static str,
    over: bool,
}

impl Outage {
    /// SIGKILL; its data stays.
    pub async fn kill(server: &'static str) -> Self {
        Self::begin(server, "kill", "start").await
    }

    /// It stands still, and its connections stay.
    pub async fn pause(server: &'static str) -> Self {
        Self::begin(server, "pause", "unpause").await
    }

    async fn begin(server: &'static str, command: &str, undo: &'static str) -> Self {
        let outage = Self { server, undo, over: false };
        done(run(&mut order(command, server).into()).await);
        outage
    }

    /// Lets it run again.
    pub async fn end(mut self) {
        // Docker may still be putting the killed process away.
        let undo = async || run(&mut order(self.undo, self.server).into()).await;
        done(retried(Duration::from_secs(10), undo).await);
        self.over = true;
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        if !self.over {
            let _ = order(self.undo, self.server).output();
        }
    }
}

/// Options of `docker run` for a server of docker/'s images whose clock can be set, by
/// [`set_clock`]: <https://github.com/wolfcw/libfaketime>.
pub const SETTABLE_CLOCK: [&str; 4] = [
    "--env=LD_PRELOAD=/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "--env=FAKETIME_TIMESTAMP_FILE=/data/clock",
    "--env=FAKETIME_NO_CACHE=1",
    "--env=FAKETIME_DONT_FAKE_MONOTONIC=1",
];

/// The same for Redis and Valkey, by docker/redis/clock.c.
pub const CLOCK_OF_REDIS: [&str; 2] =
    ["--env=LD_PRELOAD=/usr/local/lib/clock.so", "--env=CLOCK=/data/clock"];

/// What sets its clock so many seconds from the truth, run by a shell in its container.
pub fn set_clock(seconds: i64) -> String {
    format!("echo {seconds:+} >/data/new && mv /data/new /data/clock")
}

/// A single server of one test's own; gone at the end of the test.
#[derive(Debug)]
pub struct OwnServer {
    container: String,
}

impl OwnServer {
    /// Of the same image as this one, which is up. `run` are options of `docker run`, `arguments`
    /// those of the server.
    pub async fn start(like: &str, run: &[&str], arguments: &[&str]) -> Self {
        let of_the_other = ["inspect", "--format={{.Config.Image}}", &container(like)];
        let image = done(docker(&of_the_other).await);
        // Not with --rm, by which a restart now and then removes a container on a busy machine.
        let container = docker(&[&["run", "--detach"], run, &[&image], arguments].concat()).await;
        Self { container: done(container) }
    }

    /// The container's id.
    pub fn container(&self) -> &str {
        &self.container
    }

    /// Where a port that was published is to be found.
    pub async fn address(&self, port: u16) -> SocketAddr {
        let address = done(docker(&["port", &self.container, &port.to_string()]).await);
        address.parse().expect("an address")
    }

    /// Where other containers reach it.
    pub async fn ip(&self) -> String {
        let format = "--format={{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
        done(docker(&["inspect", format, &self.container]).await)
    }

    /// SIGKILL, for good.
    pub async fn kill(&self) {
        done(docker(&["kill", &self.container]).await);
    }

    /// It stands still, and its connections stay.
    pub async fn pause(&self) {
        done(docker(&["pause", &self.container]).await);
    }

    /// It goes on.
    pub async fn unpause(&self) {
        done(docker(&["unpause", &self.container]).await);
    }

    /// Ends it in good order and starts it again, perhaps at another address.
    pub async fn restart(&self) {
        done(docker(&["restart", &self.container]).await);
    }

    /// Runs a program in its container.
    pub async fn run(&self, program: &[&str]) -> String {
        done(docker(&[&["exec", &self.container], program].concat()).await)
    }

    /// What it has said so far.
    pub async fn log(&self) -> String {
        let log = Command::new("docker").args(["logs", &self.container]).output().await;
        let log = log.expect("docker runs");
        [log.stdout, log.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat()
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        let remove = ["rm", "--force", "--volumes", &self.container];
        let _ = std::process::Command::new("docker").args(remove).output();
    }
}

/// A single etcd of one test's own, with options that the others do not have.
#[derive(Debug)]
pub struct OwnEtcd {
    _server: OwnServer,
    /// Where it listens.
    pub address: SocketAddr,
}

impl OwnEtcd {
    /// The image is that of the servers which are up.
    pub async fn start(options: &[&str]) -> Self {
        let listen = [
            "--listen-client-urls=http://0.0.0.0:2379",
            "--advertise-client-urls=http://127.0.0.1:2379",
        ];
        let run = ["--publish=127.0.0.1::2379", "--entrypoint=etcd"];
        let server = OwnServer::start("etcd1", &run, &[&listen, options].concat()).await;
        let address = server.address(2379).await;
        Self { _server: server, address }
    }
}
