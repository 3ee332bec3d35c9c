//! The program's own pool of connections to MySQL or MariaDB.

use crate::{
    backend::mysql::pool::{Pool, UserPool},
    client::builder::Builder,
};

impl Builder {
    /// Sends requests to MySQL or MariaDB through the program's own pool.
    ///
    /// The pool is a `sqlx::MySqlPool` (feature `sqlx-0_9`), a `mysql_async::Pool` (feature
    /// `mysql_async-0_37`), or an implementation of [`Pool`]. The pool must connect to the database
    /// that the URL names.
    ///
    /// The client also opens one connection of its own, to the server in the URL. This
    /// connection is for keepalives, polling, the periodic list of held locks,
    /// [`durability`](crate::Client::durability) and the end of a session, which therefore never
    /// wait for the pool. Requests to acquire, release or query a lock, rechecks of waiters, the
    /// read that confirms an eviction, and guarded writes use a connection from the pool. Each
    /// request is one transaction. Settings of the pool's connections, such as the isolation level,
    /// `autocommit`, `completion_type`, `sql_mode` or a time limit, do not affect these requests,
    /// and the requests leave the settings unchanged. User variables whose names begin with
    /// `distlock_` remain set until the pool resets the connection.
    ///
    /// The client waits for each connection for up to three quarters of the
    /// [`request_timeout`](Self::request_timeout). While the pool has no free connection, held
    /// locks stay held. Calls that need the pool then fail with [`Error::Unavailable`] without
    /// acquiring a lock, unless their own timeout expires first. A waiter in the queue of a mutex,
    /// read-write lock or election keeps its place and tries again. `unlock` fails with
    /// [`Error::ReleaseUnconfirmed`]. After a guard is dropped or its `unlock` fails, the client
    /// releases the lock in the background as soon as the pool has a connection.
    ///
    /// **Do not call the client within a transaction that holds the pool's last connection**: the
    /// call fails with [`Error::Unavailable`]. If `n` tasks call the client in their transactions,
    /// give the pool more than `n` connections, or lock before the transactions begin. A pooled
    /// connection with an open transaction is refused with [`Error::Backend`]. With `autocommit`
    /// off, a query begins a transaction: end it before you return the connection.
    ///
    /// [`connect`](Self::connect) verifies with one request that the pool connects to the URL's
    /// database. If the pool connects to another database, `connect` fails with [`Error::Denied`].
    /// If the URL does not name a MySQL server, `connect` fails with [`Error::InvalidArgument`].
    ///
    /// [`Error::Backend`]: crate::Error::Backend
    /// [`Error::Denied`]: crate::Error::Denied
    /// [`Error::InvalidArgument`]: crate::Error::InvalidArgument
    /// [`Error::ReleaseUnconfirmed`]: crate::Error::ReleaseUnconfirmed
    /// [`Error::Unavailable`]: crate::Error::Unavailable
    ///
    /// ```ignore
    /// let url = "mysql://app:secret@127.0.0.1/app";
    /// let pool = sqlx::MySqlPool::connect(url).await?;
    /// let client = distlock::Client::builder(url).mysql_pool(pool.clone()).connect().await?;
    /// let guard = client.mutex("nightly-report").lock().await?;
    /// ```
    pub fn mysql_pool(mut self, pool: impl Pool) -> Self {
        self.mysql_pool = Some(UserPool::new(pool));
        self
    }
}
