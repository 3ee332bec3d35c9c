//! For those who write to ZooKeeper themselves: the condition that a transaction of their own
//! needs.
//!
//! [`LockGuard::put`](crate::LockGuard::put) and [`LockGuard::write`](crate::LockGuard::write) do
//! for most. Where they don't (ephemeral or sequential nodes, other conditions), the condition goes
//! into a `multi` of [`zookeeper_client`].

//!
//! # Beside other clients
//!
//! The queue of a [`Mutex`](crate::Mutex) is the directory `{namespace}/{name}`. Others can stand
//! in it, in the order in which they came:
//!
//! - **Curator**: `InterProcessMutex` with that path.
//! - **kazoo** (2.7.1 or later): `Lock` with that path and `extra_lock_patterns=["-lock-"]`.
//!   Without the pattern kazoo does not see distlock's nodes, and both hold the lock at once. Its
//!   node has to be ephemeral, as is the default. distlock's directories are containers, which the
//!   server removes when they are empty. kazoo makes sure of the directory once for each `Lock`
//!   object, so that one that is kept gets `NoNodeError` after that: make a new `Lock` each time,
//!   or create the directory beforehand as a persistent node, which stays.
//!
//! They have to spell the name as distlock does: all but ASCII letters, digits, `-`, `_`, `.`, `~`
//! and `:` is percent-escaped, `/` too, so that the lock `a/b` is `/distlock/a%2Fb`. What belongs
//! to no session, whatever it is called, has no place in a queue: nothing would ever take it away.

use crate::{primitives::guard::LockGuard, store_kind::StoreKind};

/// The path and version for
/// [`MultiWriter::add_check_version`](zookeeper_client::MultiWriter::add_check_version): with that
/// check, a `multi` takes effect only while the lock is held, whatever this process knows of it.
/// `None` for a guard of another store.
///
/// The path names one grant: no other grant ever has it. The client must not have a chroot, or the
/// path would mean another node.
///
/// # Examples
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = distlock::Client::connect("zk://127.0.0.1:2181").await?;
/// let guard = client.mutex("a").lock().await?;
///
/// let (path, version) = distlock::zookeeper::check(&guard).expect("a guard of ZooKeeper's");
/// let zookeeper = zookeeper_client::Client::connect("127.0.0.1:2181").await?;
/// let mut multi = zookeeper.new_multi_writer();
/// multi.add_check_version(path, version)?;
/// multi.add_set_data("/app/state", b"new", None)?;
/// // It fails with `NoNode` if the lock is lost, and then nothing was written.
/// multi.commit().await?;
/// # Ok(()) }
/// ```
#[must_use]
pub fn check(guard: &LockGuard) -> Option<(&str, i32)> {
    // Any version: what counts is that it is there.
    guard.entry_in(StoreKind::ZooKeeper).map(|entry| (&*entry.key, -1))
}
