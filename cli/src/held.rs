//! The lock under which a command runs, before and after it is acquired.

use std::{
    slice::from_ref,
    time::{Duration, Instant},
};

use distlock::{
    Client, Election, Leadership, LockGuard, LostReason, MultiLock, MultiLockGuard, Mutex, Permit,
    QueueEntry, ReadGuard, ReleaseRequest, Result, RwLock, Semaphore, WriteGuard,
};
use futures_util::stream::FuturesUnordered;

/// The lock to acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Mutex(String),
    Read(String),
    Write(String),
    Permits { name: String, wanted: u32, of: u32 },
    All(Vec<String>),
    Election { name: String, value: String },
}

impl Target {
    /// Returns the names for display.
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

    /// Acquires the lock, to be held for at most `max_hold`. Returns `None` if the lock is busy
    /// until `end`. Without an end, waits for as long as necessary. An `end` in the past makes
    /// this a single attempt.
    pub(crate) async fn take(
        &self,
        client: &Client,
        end: Option<Instant>,
        max_hold: Option<Duration>,
    ) -> Result<Option<Held>> {
        let left = |end: Instant| end.saturating_duration_since(Instant::now());
        let (max, left) = (max_hold, end.map_or(Duration::MAX, left));
        Ok(match self {
            Self::Mutex(name) => {
                let mutex = limited(client.mutex(name), max, Mutex::max_hold);
                mutex.lock_timeout(left).await?.map(Held::One)
            }
            Self::Read(name) => {
                let lock = limited(client.rw_lock(name), max, RwLock::max_hold);
                lock.read_timeout(left).await?.map(Held::Read)
            }
            Self::Write(name) => {
                let lock = limited(client.rw_lock(name), max, RwLock::max_hold);
                lock.write_timeout(left).await?.map(Held::Write)
            }
            Self::Permits { name, wanted, of } => {
                let semaphore = limited(client.semaphore(name, *of), max, Semaphore::max_hold);
                semaphore.acquire_many_timeout(*wanted, left).await?.map(Held::Permit)
            }
            Self::All(names) => {
                let locks = limited(client.multi_lock(names), max, MultiLock::max_hold);
                locks.lock_timeout(left).await?.map(Held::All)
            }
            Self::Election { name, value } => {
                let election = limited(client.election(name), max, Election::max_hold);
                election.campaign_timeout(value, left).await?.map(Held::Leader)
            }
        })
    }

    /// Lists the queue. For several locks, lists the queue of the first lock that another client
    /// holds.
    pub(crate) async fn queue(&self, client: &Client) -> Result<Vec<QueueEntry>> {
        match self {
            Self::Mutex(name) => client.mutex(name).queue().await,
            Self::Read(name) | Self::Write(name) => client.rw_lock(name).queue().await,
            Self::Permits { name, of, .. } => client.semaphore(name, *of).queue().await,
            Self::All(names) => {
                let mut queue = Vec::new();
                for name in names {
                    queue = client.mutex(name).queue().await?;
                    if queue.first().is_some_and(|first| !first.is_own()) {
                        break;
                    }
                }
                Ok(queue)
            }
            Self::Election { name, .. } => client.election(name).queue().await,
        }
    }
}

/// Sets the `max_hold` of a primitive, if there is one.
fn limited<T>(primitive: T, max: Option<Duration>, limit: impl Fn(T, Duration) -> T) -> T {
    match max {
        Some(time) => limit(primitive, time),
        None => primitive,
    }
}

/// A lock that is held.
#[derive(Debug)]
pub(crate) enum Held {
    One(LockGuard),
    Read(ReadGuard),
    Write(WriteGuard),
    Permit(Permit),
    All(MultiLockGuard),
    Leader(Leadership),
}

impl Held {
    /// Returns the guards: one, or one for each of several locks.
    pub(crate) fn guards(&self) -> &[LockGuard] {
        match self {
            Self::One(guard) => from_ref(guard),
            Self::Read(guard) => from_ref(guard),
            Self::Write(guard) => from_ref(guard),
            Self::Permit(guard) => from_ref(guard),
            Self::Leader(guard) => from_ref(guard),
            Self::All(all) => all.guards(),
        }
    }

    /// Returns the names in the order of the guards, which is not that of the command line.
    pub(crate) fn names(&self) -> String {
        self.each(|guard| guard.name().to_owned())
    }

    /// Returns a property of each guard, separated by commas.
    pub(crate) fn each(&self, pick: impl Fn(&LockGuard) -> String) -> String {
        self.guards().iter().map(pick).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.guards().iter().map(LockGuard::remaining).min().unwrap_or_default()
    }

    pub(crate) async fn lost(&self) -> LostReason {
        match self {
            Self::All(all) => all.lost().await.1,
            one => one.guards()[0].lost().await,
        }
    }

    /// Returns the first request to release each lock, with the name of the lock.
    ///
    /// The requests are watched for as long as the returned value exists.
    pub(crate) fn requests(
        &self,
    ) -> FuturesUnordered<impl Future<Output = (&str, ReleaseRequest)>> {
        let guards = self.guards().iter();
        guards.map(|guard| async move { (guard.name(), guard.release_requested().await) }).collect()
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
