//! A server of one test.

use std::{
    net::{SocketAddr, TcpListener},
    ops::Deref,
};

use distlock_testkit::docker::{CLOCK_OF_REDIS, OwnServer};

use crate::common::{
    Harness, SOON, eventually,
    redis::{PROGRAM, Reached, Redis, USUAL, settle},
};

pub(crate) struct Server {
    pub(crate) own: OwnServer,
    disk: Disk,
    reached: Reached,
    options: Vec<String>,
}

/// A volume, which outlives the server.
struct Disk(String);

impl Disk {
    fn new() -> Self {
        Self(format!("distlock-test-{:016x}", fastrand::u64(..)))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("docker").args(["volume", "rm", &self.0]).output();
    }
}

/// Runs a server, optionally through a shell that executes a command first.
async fn run(address: SocketAddr, disk: &Disk, before: &[&str], options: &[String]) -> OwnServer {
    let publish = format!("--publish={address}:6379");
    let volume = format!("--volume={}:/data", disk.0);
    let mut run = [&CLOCK_OF_REDIS[..], &[publish.as_str(), &volume]].concat();
    if !before.is_empty() {
        run.push("--entrypoint=sh");
    }
    let options = options.iter().map(String::as_str);
    let arguments: Vec<_> = before.iter().copied().chain(options).collect();
    OwnServer::start("redis", &run, &arguments).await
}

impl Server {
    /// Starts a server with options that the shared server does not have.
    pub(crate) async fn with(options: &[&str]) -> Self {
        let server = Self::just_begun(options).await;
        settle(&server.operator().await, USUAL).await;
        server
    }

    /// Starts a server that no client has used yet.
    pub(crate) async fn just_begun(options: &[&str]) -> Self {
        // The shared server is up.
        drop(Redis::start().await);
        let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr();
        let address = free.expect("an address");
        let options: Vec<_> = options.iter().map(|&option| option.to_owned()).collect();
        let disk = Disk::new();
        let own = run(address, &disk, &[], &options).await;
        let server = Self { own, disk, reached: Reached { address }, options };
        server.answers().await;
        server
    }

    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    async fn answers(&self) {
        let ping = self.program(&["ping"]);
        eventually(SOON * 3, "the server replies", async || {
            self.own.run(&ping).await.contains("PONG")
        })
        .await;
    }

    fn program<'a>(&self, arguments: &[&'a str]) -> Vec<&'a str> {
        [&PROGRAM[..], arguments].concat()
    }

    /// Restarts the server, which keeps its confirmed writes.
    pub(crate) async fn restart(&self) {
        self.own.restart().await;
        self.answers().await;
    }

    /// Kills the server with SIGKILL and discards its disk.
    pub(crate) async fn wipe(&mut self) {
        self.kill().await;
        let lost = std::mem::replace(&mut self.disk, Disk::new());
        self.own = run(self.address, &self.disk, &[], &self.options).await;
        drop(lost);
        self.answers().await;
    }

    /// Sets the options for the next start.
    pub(crate) fn start_with(&mut self, options: &[&str]) {
        self.options = options.iter().map(|&option| option.to_owned()).collect();
    }

    /// Copies the server's disk.
    pub(crate) async fn copy_disk(&self) {
        self.own.run(&["cp", "-r", "/data/appendonlydir", "/data/copy"]).await;
    }

    /// Kills the server with SIGKILL and restores the copy of its disk.
    pub(crate) async fn crash(&mut self) {
        self.kill().await;
        let before = "rm -rf /data/appendonlydir && cp -r /data/copy /data/appendonlydir && \
                      exec /entrypoint \"$@\"";
        self.own = run(self.address, &self.disk, &["-c", before, "-"], &self.options).await;
        self.answers().await;
    }

    /// Kills the server with SIGKILL and starts it again with its disk.
    pub(crate) async fn die(&mut self) {
        self.kill().await;
        self.own = run(self.address, &self.disk, &[], &self.options).await;
        self.answers().await;
    }

    /// Copies the data as a replica does.
    pub(crate) async fn back_up(&self) {
        self.own.run(&self.program(&["--rdb", "/tmp/backup.rdb"])).await;
    }

    async fn kill(&self) {
        self.own.kill().await;
        let free = async || TcpListener::bind(self.address).is_ok();
        eventually(SOON, "the server's address is free", free).await;
    }
}

impl Deref for Server {
    type Target = Reached;

    fn deref(&self) -> &Reached {
        &self.reached
    }
}
