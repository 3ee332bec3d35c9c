//! Locks of every kind. Only features of all versions of the library are used here.

use std::time::Duration;

use distlock::{
    Client, LockGuard, LostReason, Mutex, Permit, ReadGuard, RwLock, Semaphore, WriteGuard,
};
use serde::{Deserialize, Serialize};

/// The number of permits.
const PERMITS: u32 = 3;
/// Room for any number of readers, or one writer.
const READERS: u32 = 1000;

const NAME: &str = "upgraded";

/// They are named on the command line by their JSON names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Primitive {
    Mutex,
    RwLock,
    Semaphore,
}

distlock_testkit::shown_by_name!(Primitive);

impl Primitive {
    pub(crate) const ALL: [Self; 3] = [Self::Mutex, Self::RwLock, Self::Semaphore];

    /// Returns the room for holders.
    pub(crate) fn room(self) -> u32 {
        match self {
            Self::Mutex => 1,
            Self::RwLock => READERS,
            Self::Semaphore => PERMITS,
        }
    }

    pub(crate) fn of(self, client: &Client) -> Lock {
        match self {
            Self::Mutex => Lock::Mutex(client.mutex(NAME)),
            Self::RwLock => Lock::RwLock(client.rw_lock(NAME)),
            Self::Semaphore => Lock::Semaphore(client.semaphore(NAME, PERMITS)),
        }
    }
}

pub(crate) enum Lock {
    Mutex(Mutex),
    RwLock(RwLock),
    Semaphore(Semaphore),
}

/// How to request a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Manner {
    Wait,
    /// With a timeout.
    Timeout(Duration),
    Try,
}

pub(crate) enum Held {
    Mutex(LockGuard),
    Read(ReadGuard),
    Write(WriteGuard),
    Permit(Permit),
}

impl Lock {
    /// Draws how much room to request: writers less often than readers, several permits as often as
    /// one.
    pub(crate) fn draw(&self) -> u32 {
        match self {
            Self::Mutex(_) => 1,
            Self::RwLock(_) => [1, 1, READERS][fastrand::usize(..3)],
            Self::Semaphore(_) => fastrand::u32(1..PERMITS),
        }
    }

    /// Returns `None` if the lock could not be acquired in time.
    pub(crate) async fn take(&self, room: u32, manner: Manner) -> distlock::Result<Option<Held>> {
        use Manner::{Timeout, Try, Wait};
        Ok(match self {
            Self::Mutex(mutex) => match manner {
                Wait => Some(mutex.lock().await?),
                Timeout(time) => mutex.lock_timeout(time).await?,
                Try => mutex.try_lock().await?,
            }
            .map(Held::Mutex),
            Self::RwLock(lock) if room == READERS => match manner {
                Wait => Some(lock.write().await?),
                Timeout(time) => lock.write_timeout(time).await?,
                Try => lock.try_write().await?,
            }
            .map(Held::Write),
            Self::RwLock(lock) => match manner {
                Wait => Some(lock.read().await?),
                Timeout(time) => lock.read_timeout(time).await?,
                Try => lock.try_read().await?,
            }
            .map(Held::Read),
            Self::Semaphore(permits) => match manner {
                Wait => Some(permits.acquire_many(room).await?),
                Timeout(time) => permits.acquire_many_timeout(room, time).await?,
                Try => permits.try_acquire_many(room).await?,
            }
            .map(Held::Permit),
        })
    }
}

impl Held {
    fn guard(&self) -> &LockGuard {
        match self {
            Self::Mutex(guard) => guard,
            Self::Read(guard) => guard,
            Self::Write(guard) => guard,
            Self::Permit(guard) => guard,
        }
    }

    pub(crate) fn token(&self) -> u64 {
        self.guard().fencing_token().as_u64()
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.guard().is_valid()
    }

    pub(crate) async fn lost(&self) -> LostReason {
        self.guard().lost().await
    }

    pub(crate) async fn release(self) -> distlock::Result<()> {
        match self {
            Self::Mutex(guard) => guard.unlock().await,
            Self::Read(guard) => guard.unlock().await,
            Self::Write(guard) => guard.unlock().await,
            Self::Permit(permit) => permit.release().await,
        }
    }
}
