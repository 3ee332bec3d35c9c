//! What a command is run under: which lock to take, and the lock once it is taken.

use std::time::{Duration, Instant};

use distlock::{
    AllGuard, Client, Leadership, LockGuard, LostReason, Permit, QueueEntry, ReadGuard,
    ReleaseRequest, Result, WriteGuard,
};

/// Which lock to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Mutex(String),
    Read(String),
    Write(String),
    Permits { name: String, wanted: u32, of: u32 },
    All(Vec<String>),
    Election { name: String, value: String },
}

/// How long to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    None,
    Until(Instant),
    Endless,
}

impl Patience {
    /// `None`: it may wait for ever. Zero: not at all.
    fn left(self) -> Option<Duration> {
        match self {
            Self::None => Some(Duration::ZERO),
            Self::Until(end) => Some(end.saturating_duration_since(Instant::now())),
            Self::Endless => None,
        }
    }
}

impl Target {
    /// The names, for people.
    pub(crate) fn names(&self) -> String {
        match self {
            Self::Mutex(name)
            | Self::Read(name)
            | Self::Write(name)
            | Self::Permits { name, .. }
            | Self::Election { name, .. } => name.clone(),
            Self::All(names) => names.join(","),
        }
    }

    /// Takes the lock; `None` if it is busy for too long. A time of zero is a try.
    pub(crate) async fn take(&self, client: &Client, patience: Patience) -> Result<Option<Held>> {
        let left = patience.left();
        match (self, left) {
            (Self::Mutex(name), None) => client.mutex(name).lock().await.map(Held::One).map(Some),
            (Self::Mutex(name), Some(time)) => {
                Ok(client.mutex(name).lock_timeout(time).await?.map(Held::One))
            }
            (Self::Read(name), None) => client.rw_lock(name).read().await.map(Held::Read).map(Some),
            (Self::Read(name), Some(time)) => {
                Ok(client.rw_lock(name).read_timeout(time).await?.map(Held::Read))
            }
            (Self::Write(name), None) => {
                client.rw_lock(name).write().await.map(Held::Write).map(Some)
            }
            (Self::Write(name), Some(time)) => {
                Ok(client.rw_lock(name).write_timeout(time).await?.map(Held::Write))
            }
            (Self::Permits { name, wanted, of }, left) => {
                let semaphore = client.semaphore(name, *of);
                match left {
                    None => semaphore.acquire_many(*wanted).await.map(Held::Permit).map(Some),
                    Some(time) => {
                        Ok(semaphore.acquire_many_timeout(*wanted, time).await?.map(Held::Permit))
                    }
                }
            }
            (Self::All(names), None) => client.lock_all(names).await.map(Held::All).map(Some),
            (Self::All(names), Some(time)) => {
                Ok(client.lock_all_timeout(names, time).await?.map(Held::All))
            }
            (Self::Election { name, value }, left) => {
                let election = client.election(name);
                match left {
                    None => election.campaign(value).await.map(Held::Leader).map(Some),
                    Some(time) => {
                        Ok(election.campaign_timeout(value, time).await?.map(Held::Leader))
                    }
                }
            }
        }
    }

    /// Who stands in its queue; of several, in that of the first one.
    pub(crate) async fn queue(&self, client: &Client) -> Result<Vec<QueueEntry>> {
        match self {
            Self::Mutex(name) => client.mutex(name).queue().await,
            Self::Read(name) | Self::Write(name) => client.rw_lock(name).queue().await,
            Self::Permits { name, of, .. } => client.semaphore(name, *of).queue().await,
            Self::All(names) => {
                client.mutex(names.first().map_or("", String::as_str)).queue().await
            }
            Self::Election { name, .. } => client.election(name).queue().await,
        }
    }
}

/// A lock that is held.
#[derive(Debug)]
pub(crate) enum Held {
    One(LockGuard),
    Read(ReadGuard),
    Write(WriteGuard),
    Permit(Permit),
    All(AllGuard),
    Leader(Leadership),
}

impl Held {
    /// The guards of it: one, or more of several locks.
    pub(crate) fn guards(&self) -> Vec<&LockGuard> {
        match self {
            Self::One(guard) => vec![guard],
            Self::Read(guard) => vec![guard],
            Self::Write(guard) => vec![guard],
            Self::Permit(guard) => vec![guard],
            Self::Leader(guard) => vec![guard],
            Self::All(all) => all.guards().iter().collect(),
        }
    }

    /// Something of each, with commas in between.
    pub(crate) fn each(&self, pick: impl Fn(&LockGuard) -> String) -> String {
        self.guards().into_iter().map(pick).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.guards().into_iter().map(LockGuard::remaining).min().unwrap_or_default()
    }

    pub(crate) async fn lost(&self) -> LostReason {
        match self {
            Self::One(guard) => guard.lost().await,
            Self::Read(guard) => guard.lost().await,
            Self::Write(guard) => guard.lost().await,
            Self::Permit(guard) => guard.lost().await,
            Self::Leader(guard) => guard.lost().await,
            Self::All(all) => all.lost().await.1,
        }
    }

    /// Resolves when somebody asks for the lock, of one kind of lock.
    pub(crate) async fn asked(&self) -> ReleaseRequest {
        match self {
            Self::One(guard) => guard.release_requested().await,
            _ => std::future::pending().await,
        }
    }

    pub(crate) async fn unlock(self) -> Result<()> {
        match self {
            Self::One(guard) => guard.unlock().await,
            Self::Read(guard) => guard.unlock().await,
            Self::Write(guard) => guard.unlock().await,
            Self::Permit(permit) => permit.release().await,
            Self::Leader(leadership) => leadership.resign().await,
            Self::All(all) => all.unlock().await,
        }
    }
}
