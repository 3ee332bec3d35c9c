//! The program's own pool of connections to PostgreSQL.

use crate::{
    backend::postgres::pool::{Pool, UserPool},
    client::builder::Builder,
};

impl Builder {
    /// Sends requests to PostgreSQL through the program's own pool.
    ///
    /// The pool is a `sqlx::PgPool` (feature `sqlx-0_9`), a `deadpool_postgres::Pool` (feature
    /// `deadpool-postgres-0_14`), a pool of `bb8-postgres` (feature `bb8-postgres-0_9`), or an
    /// implementation of [`Pool`]. The pool must connect to the database that the URL names.
    ///
    /// The client also opens one connection of its own, to the server in the URL. This connection
    /// is for keepalives, watches, the removal of unused rows and the end of a session, which
    /// therefore never wait for the pool. Other requests use a connection from the pool: requests
    /// to acquire, release or query a lock, guarded writes, rechecks and
    /// [`durability`](crate::Client::durability). Each request is one transaction. The isolation
    /// level, `synchronous_commit = off` and time limits of the pool's connections do not affect
    /// these requests, and the requests leave all settings unchanged. Other values of
    /// `synchronous_commit`, such as `local`, apply to these requests.
    ///
    /// A request waits for a connection for up to three quarters of the
    /// [`request_timeout`](Self::request_timeout). While the pool has no free connection, held
    /// locks stay held. Calls that need the pool then fail with [`Error::Unavailable`] without
    /// acquiring a lock, unless their own timeout expires first. A waiter in the queue of a mutex,
    /// read-write lock or election keeps its place and tries again. `unlock` fails with
    /// [`Error::ReleaseUnconfirmed`]. After a guard is dropped or its `unlock` fails, the client
    /// releases the lock in the background as soon as the pool has a connection.
    ///
    /// **Do not call the client within a transaction that holds the pool's last connection**: the
    /// call fails with [`Error::Unavailable`]. If `n` tasks call the client in their transactions,
    /// give the pool more than `n` connections, or lock before the transactions begin. A request
    /// fails if its pooled connection has an open transaction: end transactions before you return
    /// connections.
    ///
    /// [`connect`](Self::connect) verifies with one request that the pool connects to the URL's
    /// database and may write there. If the pool connects to another database, or if
    /// `default_transaction_read_only` is on for its connections, `connect` fails with
    /// [`Error::Denied`]. If the URL does not name a PostgreSQL server, `connect` fails with
    /// [`Error::InvalidArgument`].
    ///
    /// [`Error::Denied`]: crate::Error::Denied
    /// [`Error::InvalidArgument`]: crate::Error::InvalidArgument
    /// [`Error::ReleaseUnconfirmed`]: crate::Error::ReleaseUnconfirmed
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
