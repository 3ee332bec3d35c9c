//! Makes your own transactions on ZooKeeper fail unless a lock is held.
//!
//! [`LockGuard::put`](crate::LockGuard::put) and [`LockGuard::write`](crate::LockGuard::write)
//! cover most uses. For ephemeral or sequential nodes, or other conditions, add the condition to a
//! `multi` of [`zookeeper_client`].
//!
//! # Sharing queues with other clients
//!
//! The queue of a [`Mutex`](crate::Mutex) is the directory `{namespace}/{name}`. Clients of other
//! libraries can join it, and are granted the lock in the order in which they joined:
//!
//! - **Curator**: `InterProcessMutex` with that path.
//! - **kazoo** (2.8 or later): `Lock` with that path and `extra_lock_patterns=["-lock-"]`.
//!   Without the pattern, kazoo does not see distlock's nodes, and both may hold the lock at once.
//!   The nodes of kazoo must be ephemeral, which is the default. The directories of distlock are
//!   containers, which the server removes when they are empty. A `Lock` of kazoo creates the
//!   directory only once, so reusing the `Lock` after the removal fails with `NoNodeError`. Create
//!   a new `Lock` each time, or create the directory beforehand as a persistent node, which is not
//!   removed.
//!
//! These clients must spell the name as distlock does. distlock percent-escapes all characters
//! except ASCII letters, digits, `-`, `_`, `.`, `~` and `:`, and also the names `.` and `..`. The
//! `/` is escaped, too: the lock `a/b` is `/distlock/a%2Fb`. Do not create persistent nodes in a
//! queue, whatever their name: nothing would ever remove them. Do not store data in the directory
//! itself: distlock overwrites it.

use crate::{primitives::guard::LockGuard, store_kind::StoreKind};

/// Returns the path and version to check in a `multi`.
///
/// Pass them to
/// [`MultiWriter::add_check_version`](zookeeper_client::MultiWriter::add_check_version). The
/// `multi` then takes effect only while the lock is held, even if this process does not know yet
/// that the lock is lost. Returns `None` for a guard of another store.
///
/// The path identifies one grant: no other grant has the same path, unless an operator deletes the
/// directory of a queue that is in use. Your client must not use a chroot, because the path would
/// then name another node.
///
/// # Examples
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = distlock::Client::connect("zk://127.0.0.1:2181").await?;
/// let guard = client.mutex("a").lock().await?;
///
/// let (path, version) = distlock::zookeeper::check(&guard).expect("the guard is on ZooKeeper");
/// let zookeeper = zookeeper_client::Client::connect("127.0.0.1:2181").await?;
/// let mut multi = zookeeper.new_multi_writer();
/// multi.add_check_version(path, version)?;
/// multi.add_set_data("/app/state", b"new", None)?;
/// // Fails with `NoNode` if the lock is lost, and writes nothing.
/// multi.commit().await?;
/// # Ok(()) }
/// ```
#[must_use]
pub fn check(guard: &LockGuard) -> Option<(&str, i32)> {
    // -1 matches any version: the node only has to exist.
    guard.entry_in(StoreKind::ZooKeeper).map(|entry| (&*entry.key, -1))
}
