//! Writes that the store applies only while several locks are held.

use super::MultiLockGuard;
use crate::{
    error::Result,
    primitives::guarded_write::{self, Write},
};

impl MultiLockGuard {
    /// Writes a value into the store if all of the locks are still held.
    ///
    /// This is [`write`](Self::write) with one [`Write::put`].
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

    /// Deletes a key from the store if all of the locks are still held.
    ///
    /// This is [`write`](Self::write) with one [`Write::delete`]. It is not an error if the key
    /// does not exist.
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

    /// Writes to the store in one transaction if all of the locks are still held.
    ///
    /// The store applies all of the writes or none, and none if the key of any of the locks no
    /// longer exists.
    ///
    /// A write through one of the [`guards`](Self::guards) depends on that lock alone. Use this
    /// call for data that several locks protect together. Keys and values are as in
    /// [`LockGuard::write`](crate::LockGuard::write).
    ///
    /// # Errors
    ///
    /// As [`LockGuard::write`](crate::LockGuard::write). [`Error::Lost`](crate::Error::Lost) names
    /// the lock that was lost, or all of the locks if the store does not show which one.
    ///
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for more than 64 locks, or if the
    /// writes and the locks' keys exceed 1,000,000 bytes in total.
    /// [`Error::Unsupported`](crate::Error::Unsupported) if several sessions of the client hold the
    /// locks. This can happen only on ZooKeeper, where a session has room for a limited number of
    /// keys and watches. These errors are returned before anything is sent.
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

    /// Returns a query that returns a row only if all of the locks are held.
    ///
    /// [`LockGuard::sql`](crate::LockGuard::sql) documents how to use the query in your own
    /// transaction. The result is `None` if the store is not an SQL database.
    ///
    /// MySQL and MariaDB refuse the query for more than 61 locks, and SQLite for more than about
    /// 1,000. In this case, run the query of each of the [`guards`](Self::guards).
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
