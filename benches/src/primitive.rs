//! distlock's other primitives, as contenders of the benchmark.

use distlock::{Client, Election, Leadership, Permit, RwLock, Semaphore, WriteGuard};

use crate::{Result, task::Primitive};

/// The number of permits.
const PERMITS: u32 = 4;

#[derive(Debug)]
pub(crate) enum Ours {
    Write(RwLock),
    Semaphore(Semaphore),
    Election(Election),
}

#[derive(Debug)]
pub(crate) enum Turn {
    Write(WriteGuard),
    Semaphore(Permit),
    Election(Leadership),
}

impl Ours {
    /// Not for mutexes, which have their own kind of contender.
    pub(crate) fn new(client: &Client, primitive: Primitive, name: &str) -> Option<Self> {
        match primitive {
            Primitive::Mutex => None,
            Primitive::Write => Some(Self::Write(client.rw_lock(name))),
            Primitive::Semaphore => Some(Self::Semaphore(client.semaphore(name, PERMITS))),
            Primitive::Election => Some(Self::Election(client.election(name))),
        }
    }

    pub(crate) async fn lock(&self) -> Result<Turn> {
        Ok(match self {
            Self::Write(lock) => Turn::Write(lock.write().await?),
            Self::Semaphore(semaphore) => Turn::Semaphore(semaphore.acquire().await?),
            Self::Election(election) => Turn::Election(election.campaign("bench").await?),
        })
    }
}

impl Turn {
    pub(crate) async fn unlock(self) -> Result<()> {
        match self {
            Self::Write(guard) => guard.unlock().await?,
            Self::Semaphore(permit) => permit.release().await?,
            Self::Election(leadership) => leadership.resign().await?,
        }
        Ok(())
    }
}
