//! The servers' containers, and what docker/'s scripts do to them. Servers of `tests/up` are
//! processes, which can also be killed, paused and restarted.

use std::{net::SocketAddr, time::Duration};

use tokio::process::Command;

use crate::{Result, retry::retried};

/// The root of the repository.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Returns `true` if the servers are processes, which `tests/up --local` has started.
pub fn is_local() -> bool {
    std::env::var_os("DISTLOCK_LOCAL").is_some()
}

/// Fails a test that needs containers if there are none.
fn need_containers() {
    assert!(
        !is_local(),
        "this test needs Docker: it controls containers, which tests/up does not start"
    );
}

/// Returns the name of a server's container.
pub fn container(server: &str) -> String {
    need_containers();
    format!("{}-{server}", project())
}

/// Returns the name of the containers' project.
fn project() -> String {
    std::env::var("COMPOSE_PROJECT_NAME").unwrap_or_else(|_| "distlock".to_owned())
}

/// Returns the label of containers and networks that docker/up has not created. docker/down removes
/// those of a killed test by it.
pub fn label() -> String {
    format!("--label=com.docker.compose.project={}", project())
}

/// Runs docker, and returns its output.
pub async fn docker(arguments: &[&str]) -> Result<String> {
    run(Command::new("docker").args(arguments)).await
}

/// Runs one of docker/'s scripts, and returns its output.
pub async fn script(name: &str, arguments: &[&str]) -> Result<String> {
    need_containers();
    run(Command::new(path(name)).args(arguments)).await
}

/// Runs bash, and returns its output.
pub async fn bash(arguments: &[&str]) -> Result<String> {
    run(Command::new("bash").args(arguments)).await
}

/// Returns the path of a file of docker/.
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

/// Unwraps a result. Fails the test on an error.
pub(crate) fn done<T>(outcome: Result<T>) -> T {
    outcome.unwrap_or_else(|error| panic!("{error}"))
}

/// A server that is cut off from its peers. It is healed on drop.
#[derive(Debug)]
pub struct Cut {
    server: &'static str,
    healed: bool,
}

impl Cut {
    /// Cuts off a server.
    pub async fn off(server: &'static str) -> Self {
        let cut = Self { server, healed: false };
        done(script("cut", &[server]).await);
        cut
    }

    /// Heals the server.
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

/// Returns the command that kills, pauses or starts a server, by docker or by the script that
/// started it.
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

/// Kills, pauses or starts a server: a container, or a process of `tests/up`.
pub async fn control(command: &str, server: &str) -> Result<()> {
    run(&mut order(command, server).into()).await.map(drop)
}

/// Restarts a server cleanly. It may take seconds until it serves.
pub async fn restart(server: &str) {
    done(run(&mut order("restart", server).into()).await);
}

/// A server that is down. It runs again after the drop.
#[derive(Debug)]
pub struct Outage {
    server: &'static str,
    undo: &'static str,
    over: bool,
}

impl Outage {
    /// Kills a server by SIGKILL. Its data stays.
    pub async fn kill(server: &'static str) -> Self {
        Self::begin(server, "kill", "start").await
    }

    /// Freezes a server. Its connections stay open.
    pub async fn pause(server: &'static str) -> Self {
        Self::begin(server, "pause", "unpause").await
    }

    async fn begin(server: &'static str, command: &str, undo: &'static str) -> Self {
        let outage = Self { server, undo, over: false };
        done(run(&mut order(command, server).into()).await);
        outage
    }

    /// Makes the server run again.
    pub async fn end(mut self) {
        // Docker may still be removing the killed process.
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

/// Options for a settable clock of Redis and Valkey, by docker/redis/clock.c.
pub const CLOCK_OF_REDIS: [&str; 2] =
    ["--env=LD_PRELOAD=/usr/local/lib/clock.so", "--env=CLOCK=/data/clock"];

/// Returns the shell command that sets a container's clock to this many seconds from the actual
/// time.
pub fn set_clock(seconds: i64) -> String {
    format!("echo {seconds:+} >/data/new && mv /data/new /data/clock")
}

/// A test's own server, which is removed on drop.
#[derive(Debug)]
pub struct OwnServer {
    container: String,
}

impl OwnServer {
    /// Starts a server of the same image as `like`, which must be running. `run` are options of
    /// `docker run`, `arguments` those of the server.
    pub async fn start(like: &str, run: &[&str], arguments: &[&str]) -> Self {
        let inspect = ["inspect", "--format={{.Config.Image}}", &container(like)];
        let image = done(docker(&inspect).await);
        // Without --rm: with it, a restart on a busy machine occasionally removes the container.
        let begin = ["run", "--detach", &label()];
        let container = docker(&[&begin[..], run, &[&image], arguments].concat()).await;
        Self { container: done(container) }
    }

    /// Returns the container's id.
    pub fn container(&self) -> &str {
        &self.container
    }

    /// Returns the address of a published port.
    pub async fn address(&self, port: u16) -> SocketAddr {
        let address = done(docker(&["port", &self.container, &port.to_string()]).await);
        address.parse().expect("an address")
    }

    /// Returns the address for other containers.
    pub async fn ip(&self) -> String {
        let format = "--format={{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
        done(docker(&["inspect", format, &self.container]).await)
    }

    /// Kills the server by SIGKILL, for good.
    pub async fn kill(&self) {
        done(docker(&["kill", &self.container]).await);
    }

    /// Freezes the server. Its connections stay open.
    pub async fn pause(&self) {
        done(docker(&["pause", &self.container]).await);
    }

    /// Resumes the server.
    pub async fn unpause(&self) {
        done(docker(&["unpause", &self.container]).await);
    }

    /// Restarts the server cleanly, possibly at another address.
    pub async fn restart(&self) {
        done(docker(&["restart", &self.container]).await);
    }

    /// Runs a program in its container.
    pub async fn run(&self, program: &[&str]) -> String {
        done(docker(&[&["exec", &self.container], program].concat()).await)
    }

    /// Returns the server's log.
    pub async fn log(&self) -> String {
        let log = Command::new("docker").args(["logs", &self.container]).output().await;
        let log = log.expect("docker runs");
        [log.stdout, log.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat()
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        let remove = ["rm", "--force", "--volumes", &self.container];
        let _ = std::process::Command::new("docker").args(remove).output();
    }
}

/// A test's own etcd, with options that the shared servers do not have.
#[derive(Debug)]
pub struct OwnEtcd {
    _server: OwnServer,
    /// The address of the server.
    pub address: SocketAddr,
}

impl OwnEtcd {
    /// Starts a server with the image of the running servers.
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
