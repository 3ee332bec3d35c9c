//! Makes your own transactions on etcd write only while a lock is held.
//!
//! [`LockGuard::put`](crate::LockGuard::put) and [`LockGuard::write`](crate::LockGuard::write)
//! cover most uses. For leases, other conditions, or reads in the same transaction, add the
//! condition that [`compare`] returns to a transaction of [`etcd_client`] 0.21. Before 1.0,
//! distlock changes its version of that crate only in a new minor version.
//!
//! With another version of the crate, or with another client, write the condition yourself: the
//! create revision of [`LockGuard::key`](crate::LockGuard::key) equals
//! [`LockGuard::fencing_token`](crate::LockGuard::fencing_token). A
//! [downgraded](crate::WriteGuard::downgrade) guard has a new key with a higher revision: use
//! [`compare`] for it.

use etcd_client::{Compare, CompareOp};

use crate::{primitives::guard::LockGuard, store_kind::StoreKind};

/// Returns the condition that the guard's key exists.
///
/// With this condition, a transaction takes effect only while the lock is held, even if this
/// process does not know yet that the lock is lost. There is one exception: the condition does not
/// detect that an operator has overwritten the key without its lease. Returns `None` for a guard of
/// another store.
///
/// # Examples
///
/// ```no_run
/// # use etcd_client::{Txn, TxnOp};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = distlock::Client::connect("etcd://127.0.0.1:2379").await?;
/// let guard = client.mutex("a").lock().await?;
///
/// let held = distlock::etcd::compare(&guard).expect("the guard is on etcd");
/// let txn = Txn::new().when([held]).and_then([TxnOp::put("/app/state", "new", None)]);
/// let mut etcd = etcd_client::Client::connect(["127.0.0.1:2379"], None).await?;
/// assert!(etcd.txn(txn).await?.succeeded(), "the lock is lost, and nothing was written");
/// # Ok(()) }
/// ```
#[must_use]
pub fn compare(guard: &LockGuard) -> Option<Compare> {
    let entry = guard.entry_in(StoreKind::Etcd)?;
    Some(Compare::create_revision(
        &*entry.key,
        CompareOp::Equal,
        i64::try_from(entry.revision).ok()?,
    ))
}
