//! Fencing tokens, and a gate that checks them.

use std::{
    fmt,
    num::{ParseIntError, TryFromIntError},
    str::FromStr,
    sync::atomic::{AtomicU64, Ordering},
};

/// Identifies a grant of a lock by an increasing number.
///
/// Every exclusive grant has a higher token than all earlier grants of the lock; [Guarantees] names
/// the exceptions. The protected resource stores the highest token it has seen and refuses lower
/// ones. Once a later holder has used its token, the resource refuses late writes of a holder that
/// was paused until after its session expired.
///
/// Fencing works only for exclusive holders. Readers share a lock, and so do permit holders: their
/// tokens differ, but a lower token is just as valid. A [`FencingGate`] may refuse their valid
/// writes.
///
/// On etcd, the token is the create revision of the holder's key. On ZooKeeper, it is the `czxid`
/// of the holder's node. A [downgrade](crate::WriteGuard::downgrade) replaces the key or the node,
/// and the token stays the same. Tokens of different locks or different clusters cannot be
/// compared. A store that loses confirmed writes or is restored from a backup may repeat tokens;
/// restore etcd with
/// [`--bump-revision --mark-compacted`](https://etcd.io/docs/v3.6/op-guide/recovery/).
///
/// [Guarantees]: https://github.com/distlock/distlock/blob/main/docs/design/guarantees.md#fencing
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
/// A token converts to and from `u64`, `i64` (checked) and text, so it fits a column of any of
/// these types. With the feature `serde`, it is serialized as a number.
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

    /// Returns the token as a number, to store with the data that it protects.
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

/// Restores a stored token.
impl From<u64> for FencingToken {
    fn from(token: u64) -> Self {
        Self(token)
    }
}

/// Restores a stored token. Fails if the number is negative.
impl TryFrom<i64> for FencingToken {
    type Error = TryFromIntError;

    fn try_from(token: i64) -> Result<Self, Self::Error> {
        u64::try_from(token).map(Self)
    }
}

/// Converts the token for databases without unsigned integers.
///
/// Fails above [`i64::MAX`], which no store reaches.
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

/// Refuses a [`FencingToken`](crate::FencingToken) below the highest admitted token.
///
/// Use one gate for each lock, at the resource that the lock protects.
///
/// A holder that was paused until after its session expired still acts as the holder until it
/// checks its guard. Only the resource can refuse this holder's writes.
///
/// The gate lives in the memory of one process, such as a server that receives the writes of all
/// holders. The gate's state is lost when that process ends. To continue in another process, store
/// the [`highest`](Self::highest) token and pass it to [`starting_at`](Self::starting_at).
///
/// The check and the write must be one step, or a newer holder may write in between. Hold a local
/// mutex around both, or put the token into the transaction that writes, as below.
///
/// # In a database
///
/// If the data is in a table, the table is the gate. Add a column for the token, and check and
/// write in one statement. If no row changed, the write was refused, or the row does not exist.
///
/// ```sql
/// UPDATE accounts SET balance = $balance, fencing_token = $token
///  WHERE id = $id AND fencing_token <= $token;
/// ```
///
/// For writes to several tables, use a table of gates. Run this statement first, **in the same
/// transaction as the writes**, and roll back if no row changed. The row stays locked until the
/// transaction ends, so no newer holder can write between the check and the writes. In a separate
/// transaction, the statement would show only that no newer holder had written *yet*.
///
/// ```sql
/// CREATE TABLE gates (lock TEXT PRIMARY KEY, token BIGINT NOT NULL);
///
/// INSERT INTO gates (lock, token) VALUES ($lock, $token)
///     ON CONFLICT (lock) DO UPDATE SET token = excluded.token
///     WHERE gates.token <= excluded.token;
/// ```
///
/// Gates are only for exclusive holders: the tokens of readers and of permit holders are valid in
/// any order.
///
/// The statements work on PostgreSQL (9.5 and later) and SQLite (3.24 and later). If the data is
/// in keys of the lock's own store, such as etcd or ZooKeeper, use
/// [`LockGuard::put`](crate::LockGuard::put). If it is in tables of the lock's own database, use
/// `LockGuard::sql`, except on Galera. Neither needs a token.
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
    /// 0 before the first token.
    highest: AtomicU64,
}

/// Reports that a [`FencingGate`] has admitted a higher token.
///
/// The caller must not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the fencing token {fencing_token} is stale: the gate has admitted {highest}")]
#[non_exhaustive]
pub struct StaleToken {
    /// The refused token.
    pub fencing_token: FencingToken,
    /// The highest token that the gate has admitted.
    pub highest: FencingToken,
}

impl FencingGate {
    /// Creates a gate that has admitted no token.
    #[must_use]
    pub const fn new() -> Self {
        Self::starting_at(0)
    }

    /// Creates a gate that continues from a stored token.
    ///
    /// Pass the [`highest`](Self::highest) token of the previous gate, which you stored with the
    /// data. The gate treats this token as admitted.
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

    /// Admits a token unless the gate has admitted a higher one.
    ///
    /// The check is one atomic operation, without a lock.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] if the gate has admitted a higher token.
    ///
    /// ```
    /// let gate = distlock::FencingGate::new();
    /// assert!(gate.admit(7_u64).is_ok());
    /// assert!(gate.admit(7_u64).is_ok());
    /// assert!(gate.admit(6_u64).is_err());
    /// ```
    pub fn admit(&self, token: impl Into<u64>) -> Result<(), StaleToken> {
        let token = token.into();
        // The ordering keeps the caller's next steps from becoming visible before this one.
        let highest = self.highest.fetch_max(token, Ordering::AcqRel);
        if highest <= token {
            return Ok(());
        }
        Err(StaleToken { fencing_token: FencingToken(token), highest: FencingToken(highest) })
    }

    /// Returns the highest admitted token, or `None` before the first one.
    ///
    /// ```
    /// let gate = distlock::FencingGate::new();
    /// assert_eq!(gate.highest(), None);
    /// assert!(gate.admit(7_u64).is_ok());
    /// assert_eq!(gate.highest(), Some(7.into()));
    /// ```
    #[must_use]
    pub fn highest(&self) -> Option<FencingToken> {
        // No store issues 0 as a token.
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
        assert_eq!(stale.to_string(), "the fencing token 1 is stale: the gate has admitted 7999");
    }
}
