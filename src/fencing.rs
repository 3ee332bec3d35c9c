//! Fencing tokens, and what the protected resource does with them.

use std::{
    fmt,
    num::{ParseIntError, TryFromIntError},
    str::FromStr,
    sync::atomic::{AtomicU64, Ordering},
};

/// A number that rises from one holder of a lock to the next, whatever happened between: the
/// protected resource stores the highest it has seen and refuses a lower one, so that a holder that
/// was paused and wakes up after its lease is gone can do no harm.
///
/// That is for holders one at a time. Readers, and those who have permits, hold side by side: their
/// tokens differ, but one with a lower token is no less valid, so a
/// [`FencingGate`] would refuse what is right.
///
/// etcd: the create revision of the holder's key. ZooKeeper: the `czxid` of its node. Tokens of
/// different locks or of different clusters do not compare, and a cluster restored from a backup
/// may repeat tokens (etcd: restore with [`--bump-revision
/// --mark-compacted`](https://etcd.io/docs/v3.6/op-guide/recovery/)).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
/// # let client = distlock::Client::connect("memory://docs-token").await?;
/// let first = client.mutex("a").lock().await?.fencing_token();
/// let second = client.mutex("a").lock().await?.fencing_token();
/// assert!(second > first);
/// # Ok(()) }
/// ```
///
/// It goes into a column of any kind and comes back: `u64`, `i64` (checked), text, and with the
/// feature `serde` as a number.
///
/// ```
/// # use distlock::FencingToken;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let token: FencingToken = "41".parse()?;
/// assert_eq!(i64::try_from(token)?, 41);
/// assert_eq!(FencingToken::try_from(41_i64)?, token);
/// assert!(FencingToken::try_from(-1_i64).is_err());
/// # Ok(()) }
/// ```
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    pub(crate) fn new(token: u64) -> Self {
        Self(token)
    }

    /// The token as a number, to store it beside the data it protects.
    #[must_use]
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

/// One that was stored.
impl From<u64> for FencingToken {
    fn from(token: u64) -> Self {
        Self(token)
    }
}

/// One that was stored. Fails if it is negative.
impl TryFrom<i64> for FencingToken {
    type Error = TryFromIntError;

    fn try_from(token: i64) -> Result<Self, Self::Error> {
        u64::try_from(token).map(Self)
    }
}

/// For databases without unsigned numbers. Fails above [`i64::MAX`], which no store reaches.
impl TryFrom<FencingToken> for i64 {
    type Error = TryFromIntError;

    fn try_from(token: FencingToken) -> Result<Self, Self::Error> {
        Self::try_from(token.0)
    }
}

impl FromStr for FencingToken {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Refuses those who come with a [`FencingToken`](crate::FencingToken) lower than the highest that
/// was seen: one for each lock, at the resource that the lock protects.
///
/// A holder that was paused and wakes up after its lease is gone still believes in its lock for as
/// long as it does not look. Only the resource can refuse its writes, and this is how: a holder
/// that was granted the lock later has a higher token.
///
/// This one lives in the memory of one process, such as a server that all holders send their writes
/// to. It forgets when that process ends: go on with [`starting_at`](Self::starting_at) what was
/// stored. To look and to write must be one step, or a newer holder may come in between: hold a
/// lock of the process's own around both, or put the token into the transaction that writes, as
/// below.
///
/// # In a database
///
/// Where the data are in a table, the table is the gate: a column for the token, and one statement
/// that looks and writes. No rows changed: refused.
///
/// ```sql
/// UPDATE accounts SET balance = $balance, fencing_token = $token
///  WHERE id = $id AND fencing_token <= $token;
/// ```
///
/// For writes to several tables, a table of gates. Run this first, **in the same transaction as the
/// writes**, and roll back if no row changed: the row stays locked until the transaction ends, so
/// that no newer holder gets in between the look and the writes. In a transaction of its own it
/// would say no more than that nobody newer had come *yet*.
///
/// ```sql
/// CREATE TABLE gates (lock TEXT PRIMARY KEY, token BIGINT NOT NULL);
///
/// INSERT INTO gates (lock, token) VALUES ($lock, $token)
///     ON CONFLICT (lock) DO UPDATE SET token = excluded.token
///     WHERE gates.token <= excluded.token;
/// ```
///
/// It is for holders one at a time: readers and permits have tokens that are valid in any order.
///
/// Both are understood by PostgreSQL (9.5 and later) and SQLite (3.24 and later). Where the data
/// are in etcd or ZooKeeper itself, [`LockGuard::put`](crate::LockGuard::put) needs no token.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
/// # let client = distlock::Client::connect("memory://docs-gate").await?;
/// let gate = distlock::FencingGate::new();
/// let old = client.mutex("a").lock().await?.fencing_token();
/// let new = client.mutex("a").lock().await?.fencing_token();
///
/// assert!(gate.admit(old).is_ok());
/// assert!(gate.admit(new).is_ok());
/// let stale = gate.admit(old).unwrap_err();
/// assert_eq!((stale.fencing_token, stale.highest), (old, new));
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
pub struct FencingGate {
    /// Zero: none yet.
    highest: AtomicU64,
}

/// The error of [`FencingGate::admit`]: somebody with a higher token was there before. Do not
/// write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the fencing token {fencing_token} is stale: {highest} was seen")]
#[non_exhaustive]
pub struct StaleToken {
    /// The refused token.
    pub fencing_token: FencingToken,
    /// The highest token that the gate has admitted.
    pub highest: FencingToken,
}

impl FencingGate {
    /// One that has seen nobody yet.
    #[must_use]
    pub const fn new() -> Self {
        Self::starting_at(0)
    }

    /// One that goes on where another one ended: with the [`highest`](Self::highest) token, which
    /// was stored beside the data.
    ///
    /// ```
    /// let gate = distlock::FencingGate::starting_at(41);
    /// assert!(gate.admit(40_u64).is_err());
    /// assert!(gate.admit(41_u64).is_ok());
    /// ```
    #[must_use]
    pub const fn starting_at(token: u64) -> Self {
        Self { highest: AtomicU64::new(token) }
    }

    /// Lets in a holder with the highest token so far, or with the same one again. One atomic
    /// operation, without a lock.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] if a higher one was seen.
    ///
    /// ```
    /// let gate = distlock::FencingGate::new();
    /// assert!(gate.admit(7_u64).is_ok());
    /// assert!(gate.admit(7_u64).is_ok());
    /// assert!(gate.admit(6_u64).is_err());
    /// ```
    pub fn admit(&self, token: impl Into<u64>) -> Result<(), StaleToken> {
        let token = token.into();
        // What the caller does after this is not to be seen before it.
        let highest = self.highest.fetch_max(token, Ordering::AcqRel);
        if highest <= token {
            return Ok(());
        }
        Err(StaleToken { fencing_token: FencingToken(token), highest: FencingToken(highest) })
    }

    /// Returns the highest admitted token; `None` before the first one.
    ///
    /// ```
    /// let gate = distlock::FencingGate::new();
    /// assert_eq!(gate.highest(), None);
    /// assert!(gate.admit(7_u64).is_ok());
    /// assert_eq!(gate.highest(), Some(7.into()));
    /// ```
    #[must_use]
    pub fn highest(&self) -> Option<FencingToken> {
        // No store gives zero as a token.
        let highest = self.highest.load(Ordering::Acquire);
        (highest > 0).then_some(FencingToken(highest))
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Barrier, thread};

    use super::*;

    #[test]
    fn a_gate_is_shared_by_threads() {
        let (gate, start) = (FencingGate::new(), Barrier::new(8));
        let mut admitted = thread::scope(|scope| {
            let compete = |first: u64| {
                let (gate, start) = (&gate, &start);
                scope.spawn(move || {
                    start.wait();
                    (first..8_000)
                        .step_by(8)
                        .filter(|token| gate.admit(*token).is_ok())
                        .collect::<Vec<_>>()
                })
            };
            let threads: Vec<_> = (1..=8).map(compete).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        admitted.sort_unstable();
        assert_eq!(gate.highest(), admitted.last().copied().map(FencingToken));
        assert_eq!(gate.highest(), Some(FencingToken(7_999)));
        let stale = gate.admit(1_u64).unwrap_err();
        assert_eq!(stale.to_string(), "the fencing token 1 is stale: 7999 was seen");
    }
}
