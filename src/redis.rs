//! For those who write to Redis or Valkey themselves: the condition that a script of their own
//! needs.
//!
//! [`LockGuard::put`](crate::LockGuard::put) and [`LockGuard::write`](crate::LockGuard::write) do
//! for most: what they write is a field of the hash `{distlock:/namespace}:data`. Where they don't,
//! the condition goes into a script of your own, on the same server and database. In a cluster its
//! keys have to be in the same slot, so that they begin with `{distlock:/namespace}`, too.

use crate::{primitives::guard::LockGuard, store_kind::StoreKind};

/// The key and the member of the sorted set of all queues' entries: `ZSCORE key member` is there
/// only while the lock is held, whatever this process knows of it. `None` for a guard of another
/// store.
///
/// With a bridge to other libraries' locks it says nothing of these: whether somebody else has
/// taken the key that they lock by is not looked at.
///
/// They identify one grant: no other grant ever has them.
///
/// # Examples
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = distlock::Client::connect("redis://127.0.0.1").await?;
/// let guard = client.mutex("a").lock().await?;
///
/// let (key, member) = distlock::redis::check(&guard).expect("a guard of Redis'");
/// let script = "if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end \
///               redis.call('SET', KEYS[2], ARGV[2]) \
///               return 1";
/// let mut redis =
///     redis::Client::open("redis://127.0.0.1")?.get_multiplexed_async_connection().await?;
/// let mut write = redis::cmd("EVAL");
/// write.arg(script).arg(2).arg(key).arg("{distlock:/distlock}:state").arg(member).arg("new");
/// // 0 if the lock is lost, and then nothing was written.
/// let written: bool = write.query_async(&mut redis).await?;
/// # Ok(()) }
/// ```
#[must_use]
pub fn check(guard: &LockGuard) -> Option<(String, String)> {
    guard.entry_in(StoreKind::Redis).and_then(crate::backend::redis::held)
}
