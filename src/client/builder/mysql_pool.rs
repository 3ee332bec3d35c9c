//! The user's own connections to MySQL and MariaDB.

use crate::{
    backend::mysql::pool::{Pool, UserPool},
    client::builder::Builder,
};

impl Builder {
    /// Sends requests to MySQL or MariaDB through a pool of the program's own.
    ///
    /// It is a `sqlx::MySqlPool` (feature `sqlx-0_9`), a `mysql_async::Pool` (feature
    /// `mysql_async-0_37`), or an implementation of [`Pool`]. It has to lead to the database of the
    /// URL.
    ///
    /// The client opens one connection of its own as well, by the URL. Keepalives and the polling
    /// of waiters go by that connection and never wait for the pool. Everything else takes a
    /// connection of the pool for the time of one request, which is a transaction of its own:
    /// acquiring, releasing and querying a lock, and guarded writes. A setting of the pool's
    /// connections, such as the isolation level, `autocommit`, `completion_type`, `sql_mode` or a
    /// time limit, does not apply to these requests, and they leave the settings as they were. User
    /// variables whose names begin with `distlock_` stay on the connections.
    ///
    /// A call waits for a connection for three quarters of the
    /// [`request_timeout`](Self::request_timeout) at a time. While the pool has none, held locks
    /// stay held, and calls that need the store fail with [`Error::Unavailable`]: nothing was
    /// taken. A guard that is dropped or whose `unlock` has failed is released in the background,
    /// as soon as the pool has a connection.
    ///
    /// **Do not call the client in a transaction that keeps the pool's last connection**: the call
    /// fails as described. Leave a connection for each task that does so, or lock before the
    /// transaction begins. A connection that comes from the pool with an open transaction is
    /// refused with [`Error::Backend`]. With `autocommit` off, end the transaction that a query has
    /// begun before the connection goes back.
    ///
    /// [`connect`](Self::connect) verifies with one request that the pool leads to the URL's
    /// database. It fails with [`Error::Denied`] if it does not, and with
    /// [`Error::InvalidArgument`] if the URL is not one of MySQL.
    ///
    /// [`Error::Backend`]: crate::Error::Backend
    /// [`Error::Denied`]: crate::Error::Denied
    /// [`Error::InvalidArgument`]: crate::Error::InvalidArgument
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
