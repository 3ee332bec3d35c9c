//! A server on a disk that loses power.

use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use distlock_testkit::Result;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{net::TcpStream, process::Child, time::sleep};

use crate::setup::{NOBODY, Setup};

/// How long a server may take to create its data and to listen.
const PATIENCE: Duration = Duration::from_secs(180);

const INTERVAL: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) struct Server {
    setup: &'static Setup,
    folder: PathBuf,
    log: PathBuf,
    port: u16,
    process: Option<Child>,
}

impl Server {
    /// `folder` is on the disk.
    pub(crate) fn new(setup: &'static Setup, folder: &Path, log: &Path, port: u16) -> Self {
        let (folder, log) = (folder.to_owned(), log.to_owned());
        Self { setup, folder, log, port, process: None }
    }

    /// Makes the folder usable for the server on a new disk.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        let data = self.folder.join("data");
        fs::create_dir_all(&data)?;
        chown(&self.folder, Some(NOBODY), Some(NOBODY))?;
        chown(&data, Some(NOBODY), Some(NOBODY))
    }

    pub(crate) fn start(&mut self) -> io::Result<()> {
        let log = OpenOptions::new().append(true).create(true).open(&self.log)?;
        let mut command = self.setup.command(&self.folder, self.port);
        command.stdin(std::process::Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.process = Some(command.spawn()?);
        Ok(())
    }

    /// Waits until the server listens. Fails if it ends.
    pub(crate) async fn listens(&mut self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let connected = TcpStream::connect(("127.0.0.1", self.port)).await.is_ok();
            // Another server may have the port.
            if self.has_ended()? {
                return Err(format!("the server has ended: see {}", self.log.display()).into());
            }
            if connected {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("the server does not listen: {}", self.log.display()).into());
            }
            sleep(INTERVAL).await;
        }
    }

    pub(crate) fn has_ended(&mut self) -> io::Result<bool> {
        match &mut self.process {
            Some(process) => Ok(process.try_wait()?.is_some()),
            None => Ok(true),
        }
    }

    /// Kills all processes of the server, and returns when they have ended.
    pub(crate) async fn kill(&mut self) -> io::Result<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        while process.try_wait()?.is_none() {
            if let Some(first) = process.id().and_then(first_child) {
                // It may have ended just now.
                let _ = kill_process(first, Signal::KILL);
            }
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(first) = self.process.as_ref().and_then(Child::id).and_then(first_child) {
            let _ = kill_process(first, Signal::KILL);
        }
    }
}

/// Returns the only child of `unshare`.
fn first_child(process: u32) -> Option<Pid> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
    Pid::from_raw(children.split_whitespace().next()?.parse().ok()?)
}
