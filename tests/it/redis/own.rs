//! A server of a test's own.

use std::{
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use distlock::{Builder, Client};
use distlock_testkit::{
    docker::{CLOCK_OF_REDIS, OwnServer},
    framing::Framing,
    proxy::Proxy,
};
use redis::{Cmd, FromRedisValue, aio::MultiplexedConnection};

use crate::common::{
    Harness, SOON, connect, connected, eventually,
    own::TTL,
    redis::{IMAGE, OPERATOR, PROGRAM, Redis, USUAL, ask, dial, settle},
};

pub(crate) struct Server {
    pub(crate) own: OwnServer,
    disk: Disk,
    pub(crate) address: SocketAddr,
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

/// Runs a server, perhaps by a shell that does something before.
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
    /// With options that the other one does not have.
    pub(crate) async fn with(options: &[&str]) -> Self {
        let server = Self::just_begun(options).await;
        settle(&server.operator().await, USUAL).await;
        server
    }

    /// The same, and nobody has used it yet.
    pub(crate) async fn just_begun(options: &[&str]) -> Self {
        // The other one is up.
        drop(Redis::start().await);
        let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr();
        let address = free.expect("an address");
        let options: Vec<_> = options.iter().map(|&option| option.to_owned()).collect();
        let disk = Disk::new();
        let own = run(address, &disk, &[], &options).await;
        let server = Self { own, disk, address, options };
        server.answers().await;
        server
    }

    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    async fn answers(&self) {
        let ping = self.program(&["ping"]);
        eventually(SOON * 3, "it lets clients in", async || {
            self.own.run(&ping).await.contains("PONG")
        })
        .await;
    }

    fn program<'a>(&self, arguments: &[&'a str]) -> Vec<&'a str> {
        [&PROGRAM[..], arguments].concat()
    }

    /// What the server confirmed is on its disk.
    pub(crate) async fn restart(&self) {
        self.own.restart().await;
        self.answers().await;
    }

    /// SIGKILL, and its disk is lost.
    pub(crate) async fn wipe(&mut self) {
        self.kill().await;
        let lost = std::mem::replace(&mut self.disk, Disk::new());
        self.own = run(self.address, &self.disk, &[], &self.options).await;
        drop(lost);
        self.answers().await;
    }

    /// With other options than before, when it is started the next time.
    pub(crate) fn start_with(&mut self, options: &[&str]) {
        self.options = options.iter().map(|&option| option.to_owned()).collect();
    }

    /// Remembers what is on its disk.
    pub(crate) async fn copy_disk(&self) {
        self.own.run(&["cp", "-r", "/data/appendonlydir", "/data/copy"]).await;
    }

    /// SIGKILL, and of its disk there is what was copied.
    pub(crate) async fn crash(&mut self) {
        self.kill().await;
        let before = "rm -rf /data/appendonlydir && cp -r /data/copy /data/appendonlydir && \
                      exec /entrypoint \"$@\"";
        self.own = run(self.address, &self.disk, &["-c", before, "-"], &self.options).await;
        self.answers().await;
    }

    /// SIGKILL, and it is started again at once with its disk as it was left.
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
        eventually(SOON, "its address is free", free).await;
    }

    pub(crate) fn url(&self) -> String {
        IMAGE.around.join(&self.address.to_string())
    }

    pub(crate) fn builder(&self) -> Builder {
        Client::builder(self.url()).session_ttl(TTL)
    }

    pub(crate) async fn client(&self) -> Client {
        connected(self.builder()).await
    }

    /// A client that can be cut off by its proxy.
    pub(crate) async fn by_proxy(&self, ttl: Duration) -> (Client, Proxy) {
        let proxy = Proxy::start(self.address, Some(Framing::Resp)).await;
        let url = self.url().replace(&self.address.to_string(), &proxy.address.to_string());
        (connect(&url, ttl).await, proxy)
    }

    pub(crate) async fn operator(&self) -> MultiplexedConnection {
        dial(&self.url(), Some(OPERATOR)).await
    }

    /// What a command of the operator's tells.
    pub(crate) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> T {
        ask(&self.operator().await, command).await
    }
}
