//! Workers: processes of distlock on this machine, and of other clients in a container.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use distlock_testkit::{Result, child::Child, clock::now};
use tokio::{process::Command, sync::mpsc, time::timeout};

use crate::{
    check,
    line::Line,
    store::{Store, operator},
};

/// How long anything may take that is not measured.
const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Distlock,
    Go,
    Etcdctl,
    Curator,
    /// With its own nodes, and `extra_lock_patterns` for ours.
    Kazoo,
    /// Without those: it does not see us.
    KazooAlone,
    /// With nodes named as Curator's. Curator and zookeeper-client don't see its own.
    KazooAsCurator,
    ZooKeeperClient,
    /// With a bridge to each of these layouts.
    DistlockPlain,
    DistlockRedisson,
    RedisPy,
    /// What it sends.
    Redisson,
    Rslock,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Distlock => "distlock",
            Self::Go => "go",
            Self::Etcdctl => "etcdctl",
            Self::Curator => "curator",
            Self::Kazoo => "kazoo",
            Self::KazooAlone => "kazoo-alone",
            Self::KazooAsCurator => "kazoo-as-curator",
            Self::ZooKeeperClient => "zookeeper-client",
            Self::DistlockPlain => "distlock-plain",
            Self::DistlockRedisson => "distlock-redisson",
            Self::RedisPy => "redis-py",
            Self::Redisson => "redisson",
            Self::Rslock => "rslock",
        }
    }

    /// Whether it runs in the container.
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

    /// The URL that it is given.
    fn url(self, url: &str) -> String {
        match self {
            Self::DistlockPlain => format!("{url}?bridge=plain&bridge_prefix=bridge:"),
            Self::DistlockRedisson => format!("{url}?bridge=redisson&bridge_prefix=bridge:"),
            Self::RedisPy | Self::Redisson | Self::Rslock => operator(url),
            _ => url.to_owned(),
        }
    }

    /// What `kazoo_lock.py` calls it.
    fn layout(self) -> Option<&'static str> {
        match self {
            Self::Kazoo => Some("patterns"),
            Self::KazooAlone => Some("alone"),
            Self::KazooAsCurator => Some("curator"),
            _ => None,
        }
    }
}

/// A name, the workers that contend for it, and all that they said.
pub(crate) struct Stage<'a> {
    pub(crate) store: &'a Store,
    pub(crate) namespace: String,
    /// The queue.
    pub(crate) path: String,
    container: &'a str,
    url: &'a str,
    pub(crate) log: Arc<Mutex<check::Log>>,
    names: Vec<String>,
}

impl<'a> Stage<'a> {
    /// `queue`: the name as it is in the store, escaped.
    pub(crate) fn new(
        store: &'a Store,
        container: &'a str,
        url: &'a str,
        namespace: String,
        queue: &str,
    ) -> Self {
        let path = format!("{namespace}/{queue}");
        Self { store, namespace, path, container, url, log: Arc::default(), names: Vec::new() }
    }

    pub(crate) async fn start(&mut self, kind: Kind, ttl: Duration) -> Result<Worker> {
        let number = self.names.len();
        self.names.push(format!("{}-{number}", kind.name()));
        let ttl = ttl.as_millis().to_string();
        let mut command = if kind.is_foreign() {
            let mut command = Command::new("docker");
            command.args(["exec", "--interactive", self.container]).args(kind.program());
            command
        } else {
            let mut command = Child::again()?;
            command.args(["worker", kind.name()]);
            command
        };
        command.args([&kind.url(self.url), &self.path, &ttl, &self.names[number]]);
        if let Some(layout) = kind.layout() {
            command.arg(layout);
        }
        let mut child = Child::start(&mut command)?;
        let (sender, lines) = mpsc::unbounded_channel();
        let log = Arc::clone(&self.log);
        child.listen(move |text| {
            let Some(line) = Line::parse(text) else {
                eprintln!("{text}");
                return Ok(());
            };
            log.lock().unwrap_or_else(PoisonError::into_inner).push((number, line.clone()));
            let _ = sender.send(line); // nobody listens to a worker that was dropped
            Ok(())
        });
        let (name, container) =
            (self.names[number].clone(), kind.is_foreign().then(|| self.container.to_owned()));
        let mut worker =
            Worker { number, name, pid: 0, container, child, lines, log: Arc::clone(&self.log) };
        worker.pid = worker.until("ready").await?.rest.parse()?;
        Ok(worker)
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn log(&self) -> check::Log {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub(crate) struct Worker {
    pub(crate) number: usize,
    pub(crate) name: String,
    /// Its number there.
    pid: i32,
    /// Where it runs, if not on this machine itself.
    container: Option<String>,
    child: Child,
    lines: mpsc::UnboundedReceiver<Line>,
    log: Arc<Mutex<check::Log>>,
}

impl Worker {
    pub(crate) async fn tell(&mut self, command: &str) -> Result<()> {
        Ok(self.child.order(command).await?)
    }

    /// Waits until it says that.
    pub(crate) async fn until(&mut self, word: &str) -> Result<Line> {
        let wait = async {
            while let Some(line) = self.lines.recv().await {
                match &line.word {
                    said if said == word => return Ok(line),
                    said if said == "error" => return Err(format!("{}: {}", self.name, line.rest)),
                    _ => {}
                }
            }
            Err(format!("{} ended before it said {word}", self.name))
        };
        match timeout(PATIENCE, wait).await {
            Ok(outcome) => Ok(outcome?),
            Err(_) => Err(format!("{}: no {word} within {PATIENCE:?}", self.name).into()),
        }
    }

    pub(crate) async fn tell_until(&mut self, command: &str, word: &str) -> Result<Line> {
        self.tell(command).await?;
        self.until(word).await
    }

    /// To what runs in the container.
    async fn signal(&self, container: &str, name: &str) -> Result<()> {
        let kill = format!("kill -{name} -- -{}", self.pid);
        let done =
            Command::new("docker").args(["exec", container, "bash", "-c", &kill]).status().await?;
        if done.success() { Ok(()) } else { Err(format!("{}: {kill} failed", self.name).into()) }
    }

    /// Ends it without a chance to say anything; when that was begun.
    pub(crate) async fn kill(mut self) -> Result<u64> {
        let at = now();
        match &self.container {
            Some(container) => {
                self.signal(container, "KILL").await?;
                self.child.wait().await?;
            }
            None => self.child.kill().await?,
        }
        let line = Line { word: "killed".to_owned(), at, rest: String::new() };
        self.log.lock().unwrap_or_else(PoisonError::into_inner).push((self.number, line));
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

    /// Lets it end its session.
    pub(crate) async fn end(mut self) -> Result<()> {
        self.child.hang_up();
        match timeout(PATIENCE, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(status) => Err(format!("{} failed at its end: {status:?}", self.name).into()),
            Err(_) => Err(format!("{} does not end", self.name).into()),
        }
    }
}
