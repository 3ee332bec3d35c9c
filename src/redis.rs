//! Makes your own scripts on Redis and Valkey write only while a lock is held.
//!
//! [`LockGuard::put`](crate::LockGuard::put) and [`LockGuard::write`](crate::LockGuard::write)
//! cover most uses: each value that they write is a field of the hash `{distlock:/namespace}:data`.
//! For other writes, add the condition to your own script, and run it on the same server and
//! database. In a cluster, the keys of the script must be in the same slot as the lock, so their
//! names must contain the hash tag `{distlock:/namespace}`.

use crate::{primitives::guard::LockGuard, store_kind::StoreKind};

/// Returns a key and a member for `ZSCORE`, which identify the grant.
///
/// The key names the sorted set of all queue entries. `ZSCORE key member` returns a score until the
/// entry is deleted, and no client is granted the lock in the holder's place before that. The entry
/// of an expired session stays until another client removes it, so the script may still write
/// although the guard is lost. Returns `None` for a guard of another store.
///
/// With a bridge to other libraries, the check covers only distlock's own lock. The check does not
/// show whether another library has acquired the key that it uses as its lock.
///
/// No other grant ever has the same key and member.
///
/// # Examples
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = distlock::Client::connect("redis://127.0.0.1").await?;
/// let guard = client.mutex("a").lock().await?;
///
/// let (key, member) = distlock::redis::check(&guard).expect("the guard is on Redis");
/// let script = "if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end \
///               redis.call('SET', KEYS[2], ARGV[2]) \
///               return 1";
/// let mut redis =
///     redis::Client::open("redis://127.0.0.1")?.get_multiplexed_async_connection().await?;
/// let mut write = redis::cmd("EVAL");
/// write.arg(script).arg(2).arg(key).arg("{distlock:/distlock}:state").arg(member).arg("new");
/// // `false` if the entry is deleted: the script has written nothing.
/// let written: bool = write.query_async(&mut redis).await?;
/// # Ok(()) }
/// ```
#[must_use]
pub fn check(guard: &LockGuard) -> Option<(String, String)> {
    guard.entry_in(StoreKind::Redis).and_then(crate::backend::redis::held)
}
