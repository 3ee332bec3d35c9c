//! A machine with a server, which loses power.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use distlock::Client;
use distlock_testkit::{Result, retry::retried};
use fastrand::Rng;
use tokio::task::block_in_place;

use crate::{
    disk::{Cut, Disk},
    mount::Mount,
    server::Server,
    setup::Setup,
};

/// How long a server that listens may take until it serves.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) setup: &'static Setup,
    port: u16,
    mount: Mount,
    server: Server,
    /// The disk with the server's initial data, all of them durable.
    new: Disk,
}

impl Machine {
    /// Installs the server on a new disk, and leaves it off. `folder` gets the server's log and the
    /// mounted disk.
    pub(crate) async fn install(setup: &'static Setup, folder: &Path, port: u16) -> Result<Self> {
        let mount = Mount::new(&folder.join("disk"), Disk::new())?;
        let server = Server::new(setup, mount.folder(), &folder.join("log"), port);
        server.prepare()?;
        let mut machine = Self { setup, port, mount, server, new: Disk::new() };
        machine.server.start()?;
        machine.server.listens().await?;
        // The tables that distlock creates are a part of the initial data, too.
        let client = machine.client().await?;
        client.mutex("first").lock().await?.unlock().await?;
        client.close().await?;
        machine.server.kill().await?;
        block_in_place(|| machine.mount.sync_all())?;
        machine.new = machine.mount.copy();
        Ok(machine)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Returns the URL of the server, without a proxy.
    pub(crate) fn url(&self) -> String {
        self.setup.url(self.port)
    }

    /// Connects to the server as soon as it serves.
    pub(crate) async fn client(&self) -> Result<Client> {
        retried(PATIENCE, || async { Ok(Client::connect(self.url()).await?) }).await
    }

    /// Turns the machine on with its initial data.
    pub(crate) async fn begin(&mut self) -> Result<()> {
        self.server.kill().await?;
        block_in_place(|| self.mount.replace(self.new.clone()))?;
        self.turn_on().await
    }

    pub(crate) async fn turn_on(&mut self) -> Result<()> {
        self.server.start()?;
        self.server.listens().await
    }

    pub(crate) async fn cut_power(&mut self, cut: Cut, random: &mut Rng) -> Result<()> {
        self.server.kill().await?;
        Ok(block_in_place(|| self.mount.cut(cut, random))?)
    }

    pub(crate) fn has_ended(&mut self) -> Result<bool> {
        Ok(self.server.has_ended()?)
    }

    pub(crate) async fn end(mut self) -> Result<()> {
        Ok(self.server.kill().await?)
    }
}

/// Returns the folder of a setup's runs.
pub(crate) fn folder(setup: &Setup) -> PathBuf {
    let (store, configuration) = setup.name;
    PathBuf::from(format!("{}/target/power/{store}-{configuration}", crate::setup::ROOT))
}
