//! Workers: processes of distlock on this machine, and of other clients in a container.

use std::{
    ops::{Deref, DerefMut},
    time::Duration,
};

use distlock_testkit::{
    Result,
    child::Child,
    clock::now,
    fleet::{self, Fleet},
    history::{Grant, History},
};
use serde::Serialize;
use tokio::process::Command;

use crate::store::{Store, operator};

/// They are started and reported by their JSON names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Distlock,
    Go,
    Etcdctl,
    Curator,
    /// With its own nodes, and `extra_lock_patterns` for those of distlock.
    Kazoo,
    /// Without the patterns: it ignores distlock's nodes.
    KazooAlone,
    /// With nodes named as Curator's, because Curator and zookeeper-client ignore kazoo's own.
    KazooAsCurator,
    #[serde(rename = "zookeeper-client")]
    ZooKeeperClient,
    /// With a bridge to each of these layouts.
    DistlockPlain,
    DistlockRedisson,
    RedisPy,
    /// A client that sends the same commands as Redisson.
    Redisson,
    Rslock,
}

distlock_testkit::shown_by_name!(Kind);

impl Kind {
    /// Returns `true` if it runs in the container.
    fn is_foreign(self) -> bool {
        !self.program().is_empty()
    }

    fn program(self) -> &'static [&'static str] {
        match self {
            Self::Distlock
            | Self::DistlockPlain
            | Self::DistlockRedisson
            | Self::Rslock
            | Self::ZooKeeperClient => &[],
            Self::RedisPy => &["python3", "redispy_lock.py"],
            Self::Redisson => &["python3", "redisson_lock.py"],
            Self::Go => &["/interop/go"],
            Self::Etcdctl => &["python3", "etcdctl_lock.py"],
            Self::Curator => &[
                "java",
                "-Xmx128m",
                "-XX:+UseSerialGC",
                "-cp",
                "/interop:/interop/jars/*",
                "Curator",
            ],
            Self::Kazoo | Self::KazooAlone | Self::KazooAsCurator => &["python3", "kazoo_lock.py"],
        }
    }

    /// Returns the URL that it gets.
    fn url(self, url: &str) -> String {
        match self {
            Self::DistlockPlain => format!("{url}?bridge=plain&bridge_prefix=bridge:"),
            Self::DistlockRedisson => format!("{url}?bridge=redisson&bridge_prefix=bridge:"),
            Self::RedisPy | Self::Redisson | Self::Rslock => operator(url),
            _ => url.to_owned(),
        }
    }

    /// Returns the name of the layout in `kazoo_lock.py`.
    fn layout(self) -> Option<&'static str> {
        match self {
            Self::Kazoo => Some("patterns"),
            Self::KazooAlone => Some("alone"),
            Self::KazooAsCurator => Some("curator"),
            _ => None,
        }
    }
}

/// A name, the workers that contend for it, and all of their messages.
pub(crate) struct Stage<'a> {
    pub(crate) store: &'a Store,
    pub(crate) namespace: String,
    /// The queue.
    pub(crate) path: String,
    container: &'a str,
    url: &'a str,
    pub(crate) fleet: Fleet,
}

/// A TTL that no step exceeds except a client's death.
pub(crate) const LONG: Duration = Duration::from_secs(10);

impl<'a> Stage<'a> {
    /// `queue`: the escaped name in the store.
    pub(crate) fn new(
        store: &'a Store,
        container: &'a str,
        url: &'a str,
        namespace: String,
        queue: &str,
    ) -> Self {
        let path = format!("{namespace}/{queue}");
        Self { store, namespace, path, container, url, fleet: Fleet::default() }
    }

    pub(crate) async fn start(&mut self, kind: Kind, ttl: Duration) -> Result<Worker> {
        let name = format!("{kind}-{}", self.fleet.names.len());
        let ttl = ttl.as_millis().to_string();
        let mut command = if kind.is_foreign() {
            let mut command = Command::new("docker");
            command.args(["exec", "--interactive", self.container]).args(kind.program());
            command
        } else {
            let mut command = Child::again()?;
            command.args(["worker", &kind.to_string()]);
            command
        };
        command.args([&kind.url(self.url), &self.path, &ttl, &name]).args(kind.layout());
        let mut worker = self.fleet.start(&name, &mut command)?;
        let pid = worker.until("ready").await?.rest.parse()?;
        let container = kind.is_foreign().then(|| self.container.to_owned());
        Ok(Worker { worker, pid, container })
    }

    /// Starts one worker of each kind.
    pub(crate) async fn start_all(
        &mut self,
        kinds: impl IntoIterator<Item = Kind>,
    ) -> Result<Vec<Worker>> {
        let mut workers = Vec::new();
        for kind in kinds {
            workers.push(self.start(kind, LONG).await?);
        }
        Ok(workers)
    }

    /// Returns the history of all workers, with a violation for each overlap of holds.
    pub(crate) fn history(&self) -> History {
        // Other clients report no tokens.
        let grant = |_: &str| Some(Grant { task: 0, token: 0, room: 1 });
        let mut history = History::read(&self.fleet.log(), &self.fleet.names, grant);
        history.check_room(1, &self.fleet.names);
        history
    }

    /// Returns the grants of each worker when the first was done, as numbers and as text.
    pub(crate) fn shares(&self) -> (Vec<usize>, String) {
        let names = &self.fleet.names;
        let shares = distlock_testkit::history::shares(&self.fleet.log(), names.len());
        let listed = names.iter().zip(&shares).map(|(name, share)| format!("{name} {share}"));
        let listed = listed.collect::<Vec<_>>().join(", ");
        (shares, format!("when the first was done: {listed}"))
    }
}

pub(crate) struct Worker {
    worker: fleet::Worker,
    /// Its process id in the container.
    pid: i32,
    /// Its container, if it does not run on this machine itself.
    container: Option<String>,
}

impl Deref for Worker {
    type Target = fleet::Worker;

    fn deref(&self) -> &fleet::Worker {
        &self.worker
    }
}

impl DerefMut for Worker {
    fn deref_mut(&mut self) -> &mut fleet::Worker {
        &mut self.worker
    }
}

impl Worker {
    /// Sends a signal to a process in the container.
    async fn signal(&self, container: &str, name: &str) -> Result<()> {
        let kill = format!("kill -{name} -- -{}", self.pid);
        let done =
            Command::new("docker").args(["exec", container, "bash", "-c", &kill]).status().await?;
        if done.success() { Ok(()) } else { Err(format!("{}: {kill} failed", self.name).into()) }
    }

    /// Kills it; returns the time before the kill.
    pub(crate) async fn kill(mut self) -> Result<u64> {
        let Some(container) = &self.container else { return self.worker.kill().await };
        let at = now();
        self.signal(container, "KILL").await?;
        self.child.wait().await?;
        self.note("killed", at);
        Ok(at)
    }

    pub(crate) async fn stop(&self) -> Result<()> {
        match &self.container {
            Some(container) => self.signal(container, "STOP").await,
            None => Ok(self.child.stop().await?),
        }
    }

    pub(crate) async fn go_on(&self) -> Result<()> {
        match &self.container {
            Some(container) => self.signal(container, "CONT").await,
            None => Ok(self.child.go_on()?),
        }
    }

    /// Waits until it is granted the lock, and lets it release.
    pub(crate) async fn turn(&mut self) -> Result<()> {
        self.until("grant").await?;
        self.tell_until("unlock", "done").await.map(drop)
    }

    /// Lets it end its session.
    pub(crate) async fn end(self) -> Result<()> {
        self.worker.end().await
    }
}
