//! For those who write to etcd themselves: the condition that a transaction of their own needs.
//!
//! [`LockGuard::put`](crate::LockGuard::put) and [`LockGuard::write`](crate::LockGuard::write) do
//! for most. Where they don't (leases, other conditions, reads in the same transaction), the
//! condition goes into a transaction of [`etcd_client`].

use etcd_client::{Compare, CompareOp};

use crate::{primitives::guard::LockGuard, store_kind::StoreKind};

/// The condition that this guard's key is there: with it, a transaction takes effect only while the
/// lock is held, whatever this process knows of it. `None` for a guard of another store.
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
/// let held = distlock::etcd::compare(&guard).expect("a guard of etcd's");
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
