//! The user's own connections to PostgreSQL.

use crate::{
    backend::postgres::pool::{Pool, UserPool},
    client::builder::Builder,
};

impl Builder {
    /// Sends requests to PostgreSQL through a pool of the program's own.
    ///
    /// It is a `sqlx::PgPool` (feature `sqlx-0_9`), a `deadpool_postgres::Pool` (feature
    /// `deadpool-postgres-0_14`), a pool of `bb8-postgres` (feature `bb8-postgres-0_9`), or an
    /// implementation of [`Pool`]. It has to lead to the database of the URL.
    ///
    /// The client opens one connection of its own as well, by the URL. Keepalives and watches go by
    /// that connection and never wait for the pool. Everything else takes a connection of the pool
    /// for the time of one request, which is a transaction of its own: acquiring, releasing and
    /// querying a lock, and guarded writes. A setting of the pool's connections, such as the
    /// isolation level, `synchronous_commit` or a time limit, does not apply to these requests, and
    /// they leave none behind.
    ///
    /// A call waits for a connection for three quarters of the
    /// [`request_timeout`](Self::request_timeout) at a time. While the pool has none, held locks
    /// stay held, and calls that need the store fail with [`Error::Unavailable`]: nothing was
    /// taken. A guard that is dropped or whose `unlock` has failed is released in the background,
    /// as soon as the pool has a connection.
    ///
    /// **Do not call the client in a transaction that keeps the pool's last connection**: the call
    /// fails as described. Leave a connection for each task that does so, or lock before the
    /// transaction begins.
    ///
    /// [`connect`](Self::connect) verifies with one request that the pool leads to the URL's
    /// database. It fails with [`Error::Denied`] if it does not, and with
    /// [`Error::InvalidArgument`] if the URL is not one of PostgreSQL.
    ///
    /// [`Error::Denied`]: crate::Error::Denied
    /// [`Error::InvalidArgument`]: crate::Error::InvalidArgument
    /// [`Error::Unavailable`]: crate::Error::Unavailable
    ///
    /// ```ignore
    /// let url = "postgres://app:secret@127.0.0.1/app";
    /// let pool = sqlx::PgPool::connect(url).await?;
    /// let client = distlock::Client::builder(url).postgres_pool(pool.clone()).connect().await?;
    /// let guard = client.mutex("nightly-report").lock().await?;
    /// ```
    pub fn postgres_pool(mut self, pool: impl Pool) -> Self {
        self.pool = Some(UserPool::new(pool));
        self
    }
}
