//! Writes that the store applies only while all of several locks are held.

use super::MultiLockGuard;
use crate::{
    error::Result,
    primitives::guarded_write::{self, Write},
};

impl MultiLockGuard {
    /// Writes a value into the store if all of the locks are held at that moment:
    /// [`write`](Self::write) with one [`Write::put`].
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    ///
    /// # Cancel safety
    ///
    /// As [`write`](Self::write).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// # let client = distlock::Client::connect("memory://docs-all-put").await?;
    /// let all = client.lock_all(["alice", "bob"]).await?;
    /// all.put("/bank/last-transfer", "alice to bob").await?;
    /// # all.unlock().await }
    /// ```
    pub async fn put(&self, key: impl Into<String>, value: impl Into<Vec<u8>>) -> Result<()> {
        self.write(&[Write::put(key, value)]).await
    }

    /// Deletes a key from the store if all of the locks are held at that moment:
    /// [`write`](Self::write) with one [`Write::delete`]. A key that does not exist is no error.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    ///
    /// # Cancel safety
    ///
    /// As [`write`](Self::write).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// # let client = distlock::Client::connect("memory://docs-all-delete").await?;
    /// let all = client.lock_all(["alice", "bob"]).await?;
    /// all.delete("/bank/last-transfer").await?;
    /// # all.unlock().await }
    /// ```
    pub async fn delete(&self, key: impl Into<String>) -> Result<()> {
        self.write(&[Write::delete(key)]).await
    }

    /// Writes to the store's own data in one transaction: all of it, and only if the keys of all
    /// of the locks exist at that moment.
    ///
    /// A write through one of the [`guards`](Self::guards) has the key of that lock alone as its
    /// condition: what several locks protect is written by this call. Keys and values are as in
    /// [`LockGuard::write`](crate::LockGuard::write).
    ///
    /// # Errors
    ///
    /// As [`LockGuard::write`](crate::LockGuard::write); [`Error::Lost`](crate::Error::Lost) names
    /// the lock that was lost, or all of them if it is not known which. Before anything is sent,
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for more than 64 locks, and
    /// [`Error::Unsupported`](crate::Error::Unsupported) if the locks are held by several sessions
    /// of the client: ZooKeeper's sessions have room for a limited number of watches.
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::write`](crate::LockGuard::write).
    ///
    /// # Examples
    ///
    /// ```
    /// # use distlock::{Client, Error, Write, memory::Space};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = Client::connect("memory://docs-all-write").await?;
    /// let all = client.lock_all(["alice", "bob"]).await?;
    /// let transfer = [Write::put("/bank/alice", "70"), Write::put("/bank/bob", "30")];
    /// all.write(&transfer).await?;
    ///
    /// Space::named("docs-all-write").delete(all.guards()[1].key());
    /// let error = all.write(&transfer).await.unwrap_err();
    /// assert!(matches!(error, Error::Lost { name, .. } if name == "bob"));
    /// # Ok(()) }
    /// ```
    pub async fn write(&self, writes: &[Write]) -> Result<()> {
        let guards: Vec<_> = self.guards.iter().collect();
        guarded_write::write(&guards, writes).await
    }

    /// The query by which a transaction of your own, in the same database and with any driver,
    /// writes only while all of the locks are held: it returns a row if they are. `None` for locks
    /// of a store that is no SQL database.
    ///
    /// [`LockGuard::sql`](crate::LockGuard::sql) documents how to use it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-all-sql").await?;
    /// let all = client.lock_all(["alice", "bob"]).await?;
    /// assert!(all.sql().is_none(), "memory has no tables");
    /// # all.unlock().await }
    /// ```
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    #[must_use]
    pub fn sql(&self) -> Option<crate::SqlCheck> {
        let checks: Option<Vec<_>> = self.guards.iter().map(crate::LockGuard::sql).collect();
        crate::SqlCheck::all(checks?)
    }
}
