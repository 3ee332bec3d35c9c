//! The clients written in Rust: distlock itself, zookeeper-client's `Client::lock` and rslock. They
//! receive commands on standard input (`docker/interop.d/protocol.md`).

use std::time::Duration;

use distlock::{Client, LockGuard};
use distlock_testkit::{Result, backend::Backend, event::report, orders::orders};
use tokio::{sync::mpsc, time::sleep};
use zookeeper_client as zk;

/// The suffix of an election's queue.
const ELECTION: &str = "!election";

enum Worker<'a> {
    Mutex(distlock::Mutex),
    Election(distlock::Election, String),
    Crate { client: &'a zk::Client, dir: String },
    Rslock { manager: rslock::LockManager, key: Vec<u8>, ttl: Duration },
}

enum Held<'a> {
    Lock(LockGuard),
    Leadership(distlock::Leadership),
    Crate(zk::LockClient<'a>),
    Rslock(rslock::Lock),
}

impl Held<'_> {
    fn key(&self) -> String {
        match self {
            Self::Lock(guard) => guard.key().to_owned(),
            Self::Leadership(leadership) => leadership.key().to_owned(),
            Self::Crate(lock) => lock.lock_path().to_owned(),
            Self::Rslock(lock) => String::from_utf8_lossy(&lock.resource).into_owned(),
        }
    }

    async fn release(self) -> Result<()> {
        let lost = match &self {
            Self::Lock(guard) => !guard.is_valid(),
            Self::Leadership(leadership) => !leadership.is_valid(),
            Self::Crate(_) | Self::Rslock(_) => false,
        };
        if lost {
            report("lost", "")?;
        }
        report("release", "")?;
        match self {
            Self::Lock(guard) => guard.unlock().await?,
            Self::Leadership(leadership) => leadership.resign().await?,
            // The crate deletes the node in the background.
            Self::Crate(lock) => drop(lock),
            Self::Rslock(lock) => lock.release().await,
        }
        Ok(())
    }
}

impl<'a> Worker<'a> {
    async fn lock(&self) -> Result<Held<'a>> {
        report("ask", "")?;
        let held = match self {
            Self::Mutex(mutex) => Held::Lock(mutex.lock().await?),
            Self::Election(election, value) => Held::Leadership(election.campaign(value).await?),
            Self::Crate { client, dir } => {
                let acls = zk::Acls::anyone_all();
                let options = zk::LockOptions::new(acls)
                    .with_ancestor_options(zk::CreateMode::Container.with_acls(acls));
                Held::Crate(
                    client.lock(zk::LockPrefix::new_curator(dir, "lock-")?, b"", options?).await?,
                )
            }
            Self::Rslock { manager, key, ttl } => loop {
                if let Ok(lock) = manager.lock(key.as_slice(), *ttl).await {
                    break Held::Rslock(lock);
                }
            },
        };
        report("grant", held.key())?;
        Ok(held)
    }

    fn observe(&self) -> Result<()> {
        let Self::Election(election, _) = self else { return Err("no election".into()) };
        let mut leaders = election.observe()?;
        tokio::spawn(async move {
            while let Some(leader) = leaders.next().await {
                report("leader", String::from_utf8_lossy(leader.value()))?;
            }
            std::io::Result::Ok(())
        });
        Ok(())
    }

    /// Executes commands until standard input ends, or a waiter is ordered to leave.
    async fn obey(&self, mut commands: mpsc::UnboundedReceiver<String>) -> Result<()> {
        let mut held = None;
        while let Some(command) = commands.recv().await {
            let words: Vec<&str> = command.split(' ').collect();
            match (&words[..], held.take()) {
                (["lock"], None) => {
                    held = tokio::select! {
                        locked = self.lock() => Some(locked?),
                        // A waiter receives no other command.
                        leave = commands.recv() => {
                            if leave.is_some() {
                                report("leaving", "")?;
                            }
                            return Ok(());
                        }
                    };
                    continue;
                }
                (["unlock"], Some(lock)) => lock.release().await?,
                (["run", rounds, hold, pause @ ..], None) => {
                    let pause = pause.first().map_or(Ok(0), |pause| pause.parse())?;
                    for _ in 0..rounds.parse::<u32>()? {
                        let lock = self.lock().await?;
                        sleep(Duration::from_millis(hold.parse()?)).await;
                        lock.release().await?;
                        sleep(Duration::from_millis(pause)).await;
                    }
                }
                (["proclaim", value], Some(Held::Leadership(leadership))) => {
                    leadership.proclaim(value).await?;
                    held = Some(Held::Leadership(leadership));
                }
                (["observe"], other) => {
                    self.observe()?;
                    held = other;
                }
                _ => return Err(format!("not now, or unknown: {command}").into()),
            }
            report("done", "")?;
        }
        Ok(())
    }
}

pub(crate) async fn run(client: &str, url: &str, path: &str, ttl: &str, value: &str) -> Result<()> {
    let outcome = work(client, url, path, Duration::from_millis(ttl.parse()?), value).await;
    if let Err(error) = &outcome {
        report("error", error)?;
    }
    outcome
}

async fn work(client: &str, url: &str, path: &str, ttl: Duration, value: &str) -> Result<()> {
    let ready = || report("ready", std::process::id());
    if client == "zookeeper-client" {
        let (_, servers) = Backend::split(url).ok_or("no such store")?;
        let client = zk::Client::connector().with_session_timeout(ttl).connect(servers).await?;
        ready()?;
        return Worker::Crate { client: &client, dir: path.to_owned() }.obey(orders()).await;
    }
    let (namespace, queue) = path.rsplit_once('/').ok_or("a path has a slash")?;
    let name =
        percent_encoding::percent_decode_str(queue.trim_end_matches(ELECTION)).decode_utf8()?;
    if client == "rslock" {
        let mut manager = rslock::LockManager::new(vec![url]);
        manager.set_retry(10, Duration::from_millis(10));
        ready()?;
        let key = format!("bridge:{name}").into_bytes();
        return Worker::Rslock { manager, key, ttl }.obey(orders()).await;
    }
    let client = Client::builder(url).namespace(namespace).session_ttl(ttl).connect().await?;
    let worker = if queue.ends_with(ELECTION) {
        Worker::Election(client.election(&name), value.to_owned())
    } else {
        Worker::Mutex(client.mutex(&name))
    };
    ready()?;
    let outcome = worker.obey(orders()).await;
    client.close().await?;
    outcome
}
