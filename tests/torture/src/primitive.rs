//! The primitives that the workers contend for.

use std::{future::Future, str::FromStr, time::Duration};

use distlock::{
    Client, Leadership, LockGuard, MultiLockGuard, Permit, ReadGuard, Result, WriteGuard,
};
use distlock_testkit::store::named;
use serde::{Deserialize, Serialize};

use crate::manner::Manner;

/// The names of the locks. Primitives of one name are independent.
const NAMES: [&str; 3] = ["red", "green", "blue"];

/// More names for brief holders, which would otherwise wait for the few that a fault has struck.
const MORE: [&str; 16] = [
    "red", "green", "blue", "cyan", "gold", "gray", "lime", "navy", "teal", "pink", "plum", "rose",
    "ruby", "rust", "sand", "snow",
];

/// The number of permits of each semaphore.
pub(crate) const PERMITS: u32 = 3;

/// The primitive of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Primitive {
    #[default]
    Mutex,
    Rw,
    Semaphore,
    Election,
    /// Some calls acquire several mutexes at once, and some acquire one.
    LockAll,
    /// Each call draws one of the others.
    All,
}

impl Primitive {
    pub(crate) const EVERY: [Self; 6] =
        [Self::Mutex, Self::Rw, Self::Semaphore, Self::Election, Self::LockAll, Self::All];

    /// Draws what a task acquires next. `brief`: holders are brief.
    pub(crate) fn draw(self, brief: bool) -> Want {
        let names = names(brief);
        let name = names[fastrand::usize(..names.len())];
        match self {
            Self::Mutex => Want::Mutex(name),
            Self::Rw if fastrand::u8(..3) == 0 => Want::Write(name),
            Self::Rw => Want::Read(name),
            Self::Semaphore => Want::Permits(name, fastrand::u32(1..=2)),
            Self::Election => Want::Lead(name),
            Self::LockAll if fastrand::bool() => Want::Mutex(name),
            Self::LockAll => {
                let mut names = NAMES;
                fastrand::shuffle(&mut names);
                Want::All(names[..fastrand::usize(2..=names.len())].to_vec())
            }
            Self::All => {
                let others = &Self::EVERY[..Self::EVERY.len() - 1];
                others[fastrand::usize(..others.len())].draw(brief)
            }
        }
    }
}

distlock_testkit::shown_by_name!(Primitive);

impl FromStr for Primitive {
    type Err = String;

    fn from_str(word: &str) -> std::result::Result<Self, String> {
        named(word)
    }
}

fn names(brief: bool) -> &'static [&'static str] {
    if brief { &MORE } else { &NAMES }
}

/// How a lock may be shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    /// Not at all.
    #[default]
    Exclusive,
    /// With other sharing holders.
    Shared,
    /// With others, while there are permits.
    Permits { taken: u32, of: u32 },
}

/// What one call acquires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    Mutex(&'static str),
    Read(&'static str),
    Write(&'static str),
    Permits(&'static str, u32),
    Lead(&'static str),
    All(Vec<&'static str>),
}

impl Want {
    /// Returns the lock's name in the history, as in its keys.
    pub(crate) fn lock(&self) -> String {
        match self {
            Self::Mutex(name) => (*name).to_owned(),
            Self::Read(name) | Self::Write(name) => format!("{name}{RW}"),
            Self::Permits(name, _) => format!("{name}{SEMAPHORE}"),
            Self::Lead(name) => format!("{name}{ELECTION}"),
            Self::All(names) => names.join("+"),
        }
    }

    /// Returns the maximum number of requests of a call that does not wait, of two request timeouts
    /// each.
    pub(crate) fn requests(&self) -> u32 {
        match self {
            Self::Mutex(_) | Self::Lead(_) => 1,
            Self::Read(_) | Self::Write(_) => 2,
            // A read, the gate, the permits.
            Self::Permits(..) => 3,
            // All at once, then one after the other, and their release.
            Self::All(names) => 2 + 2 * u32::try_from(names.len()).unwrap_or(u32::MAX),
        }
    }

    pub(crate) async fn get(
        &self,
        client: &Client,
        manner: Manner,
        time_limit: Duration,
    ) -> Result<Option<Held>> {
        match self {
            Self::Mutex(name) => {
                let mutex = client.mutex(name);
                let (wait, attempt, limited) =
                    (mutex.lock(), mutex.try_lock(), mutex.lock_timeout(time_limit));
                Ok(by(manner, time_limit, wait, attempt, limited).await?.map(Held::Mutex))
            }
            Self::Read(name) => {
                let lock = client.rw_lock(name);
                let (wait, attempt, limited) =
                    (lock.read(), lock.try_read(), lock.read_timeout(time_limit));
                Ok(by(manner, time_limit, wait, attempt, limited).await?.map(Held::Read))
            }
            Self::Write(name) => {
                let lock = client.rw_lock(name);
                let (wait, attempt, limited) =
                    (lock.write(), lock.try_write(), lock.write_timeout(time_limit));
                Ok(by(manner, time_limit, wait, attempt, limited).await?.map(Held::Write))
            }
            Self::Permits(name, permits) => {
                let semaphore = client.semaphore(name, PERMITS);
                let (wait, attempt) =
                    (semaphore.acquire_many(*permits), semaphore.try_acquire_many(*permits));
                let limited = semaphore.acquire_many_timeout(*permits, time_limit);
                Ok(by(manner, time_limit, wait, attempt, limited).await?.map(Held::Permit))
            }
            Self::Lead(name) => {
                let election = client.election(name);
                let (wait, attempt) =
                    (election.campaign("elected"), election.try_campaign("elected"));
                let limited = election.campaign_timeout("elected", time_limit);
                Ok(by(manner, time_limit, wait, attempt, limited).await?.map(Held::Lead))
            }
            Self::All(names) => {
                let (wait, attempt) = (client.lock_all(names), client.try_lock_all(names));
                let limited = client.lock_all_timeout(names, time_limit);
                Ok(by(manner, time_limit, wait, attempt, limited).await?.map(Held::All))
            }
        }
    }
}

/// Makes one of the three calls.
async fn by<T>(
    manner: Manner,
    time_limit: Duration,
    wait: impl Future<Output = Result<T>>,
    attempt: impl Future<Output = Result<Option<T>>>,
    limited: impl Future<Output = Result<Option<T>>>,
) -> Result<Option<T>> {
    match manner {
        Manner::TryLock => attempt.await,
        Manner::LockTimeout => limited.await,
        Manner::Dropped => match tokio::time::timeout(time_limit, wait).await {
            Ok(answer) => answer.map(Some),
            Err(_) => Ok(None),
        },
        _ => wait.await.map(Some),
    }
}

/// Queues of other primitives than the mutex have their keys in directories with these suffixes.
const RW: &str = "!rw";
const SEMAPHORE: &str = "!permits";
const ELECTION: &str = "!election";

/// Returns the locks that may be held exclusively, by their names in the history.
pub(crate) fn locks(brief: bool) -> impl Iterator<Item = String> {
    names(brief).iter().flat_map(|name| ["", RW, ELECTION].map(|end| format!("{name}{end}")))
}

/// Returns the place of a name among all names of locks.
pub(crate) fn place_of(name: &str) -> u64 {
    MORE.iter().position(|known| *known == name).unwrap_or(MORE.len()) as u64
}

/// Returns the locks that other libraries also use.
pub(crate) fn strange_locks() -> Vec<String> {
    NAMES.map(str::to_owned).to_vec()
}

/// The result of a call.
#[derive(Debug)]
pub(crate) enum Held {
    Mutex(LockGuard),
    Read(ReadGuard),
    Write(WriteGuard),
    Permit(Permit),
    Lead(Leadership),
    All(MultiLockGuard),
}

impl Held {
    pub(crate) fn guards(&self) -> &[LockGuard] {
        std::slice::from_ref(match self {
            Self::Mutex(guard) => guard,
            Self::Read(guard) => guard,
            Self::Write(guard) => guard,
            Self::Permit(guard) => guard,
            Self::Lead(guard) => guard,
            Self::All(all) => return all.guards(),
        })
    }

    /// Returns the locks' names, as in [`Want::lock`], with their tokens.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let end = match self {
            Self::Mutex(_) | Self::All(_) => "",
            Self::Read(_) | Self::Write(_) => RW,
            Self::Permit(_) => SEMAPHORE,
            Self::Lead(_) => ELECTION,
        };
        let part =
            |guard: &LockGuard| (format!("{}{end}", guard.name()), guard.fencing_token().as_u64());
        self.guards().iter().map(part).collect()
    }

    pub(crate) fn mode(&self) -> Mode {
        match self {
            Self::Mutex(_) | Self::Write(_) | Self::Lead(_) | Self::All(_) => Mode::Exclusive,
            Self::Read(_) => Mode::Shared,
            Self::Permit(permit) => Mode::Permits { taken: permit.permits(), of: PERMITS },
        }
    }

    pub(crate) async fn release(self) -> Result<()> {
        match self {
            Self::Mutex(guard) => guard.unlock().await,
            Self::Read(guard) => guard.unlock().await,
            Self::Write(guard) => guard.unlock().await,
            Self::Permit(permit) => permit.release().await,
            Self::Lead(leadership) => leadership.resign().await,
            Self::All(all) => all.unlock().await,
        }
    }
}

/// The name and the token of a held lock.
pub(crate) type Part = (String, u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primitives_have_names() {
        for primitive in Primitive::EVERY {
            assert_eq!(primitive.to_string().parse(), Ok(primitive));
        }
        let error = "barrier".parse::<Primitive>().unwrap_err();
        assert!(error.contains("barrier") && error.contains("semaphore"), "{error}");
    }
}
