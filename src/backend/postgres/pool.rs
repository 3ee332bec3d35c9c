//! The traits that a user's pool implements for [`Builder::postgres_pool`].
//!
//! [`Builder::postgres_pool`]: crate::Builder::postgres_pool

use std::{error::Error, fmt, pin::Pin, sync::Arc};

use crate::{
    backend::sql::{
        lending::Lingers,
        outcome::{Outcome, Row},
    },
    error::BoxError,
};

/// The future that the methods of [`Pool`] and [`PoolConnection`] return.
///
/// Create it with `Box::pin(async move { … })`.
pub type PoolFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, PoolError>> + Send + 'a>>;

/// A pool of connections to PostgreSQL, for [`Builder::postgres_pool`].
///
/// The pools of sqlx, deadpool-postgres and bb8-postgres implement this trait with the features
/// `sqlx-0_9`, `deadpool-postgres-0_14` and `bb8-postgres-0_9`. To use another pool, implement the
/// trait for a type of your own. The futures are polled on the threads that keep sessions alive,
/// and must not block these threads. Connections that the pool opens on these threads are bound to
/// the client's runtime: see [`Builder::runtime`].
///
/// [`Builder::postgres_pool`]: crate::Builder::postgres_pool
/// [`Builder::runtime`]: crate::Builder::runtime
///
/// ```
/// use distlock::postgres::{Pool, PoolConnection, PoolError, PoolFuture};
///
/// /// A pool that is closed.
/// struct Closed;
///
/// impl Pool for Closed {
///     fn acquire(&self) -> PoolFuture<'_, Box<dyn PoolConnection>> {
///         Box::pin(async { Err(PoolError::new("the pool is closed")) })
///     }
/// }
///
/// let builder = distlock::Client::builder("postgres://127.0.0.1/app").postgres_pool(Closed);
/// ```
pub trait Pool: Send + Sync + 'static {
    /// Waits for a connection without an open transaction.
    ///
    /// # Errors
    ///
    /// Every error means that no request was sent. If the server reported the error, attach its
    /// SQLSTATE with [`PoolError::with_sqlstate`].
    ///
    /// # Cancel safety
    ///
    /// The client may drop the future when it stops waiting. The pool must then keep the connection
    /// or close it.
    fn acquire(&self) -> PoolFuture<'_, Box<dyn PoolConnection>>;
}

/// The pool that was passed to the builder of a client.
#[derive(Clone)]
pub(crate) struct UserPool {
    pub(super) pool: Arc<dyn Pool>,
    pub(super) lingers: Lingers,
}

impl UserPool {
    pub(crate) fn new(pool: impl Pool) -> Self {
        Self { pool: Arc::new(pool), lingers: Lingers::default() }
    }
}

impl fmt::Debug for UserPool {
    /// Hides the user's type, whose output may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserPool")
    }
}

/// A connection that a [`Pool`] has lent for one request.
pub trait PoolConnection: Send {
    /// Runs several statements, and returns the result of each in order.
    ///
    /// Send the statements as **one message of the simple query protocol**, which the server runs
    /// as one transaction. Do not send them one by one or in a transaction block. The client
    /// verifies this from the results. The connection returns to the pool afterwards.
    ///
    /// # Errors
    ///
    /// If the server reported the error, attach its SQLSTATE with [`PoolError::with_sqlstate`]:
    /// most SQLSTATEs show that the transaction was rolled back. After any other error, such as one
    /// without a SQLSTATE, the outcome of the transaction is unknown.
    ///
    /// # Cancel safety
    ///
    /// The client drops the future when it stops waiting, although replies from the server may
    /// still arrive. The connection must not return to the pool in that state: close it, or return
    /// it once all replies have been read.
    fn run<'a>(self: Box<Self>, statements: &'a str) -> PoolFuture<'a, Vec<StatementResult>>;
}

/// The result of one statement that a [`PoolConnection`] has run.
#[derive(Debug)]
pub struct StatementResult(Outcome);

impl StatementResult {
    /// Creates a result from the rows and the row count of a statement.
    ///
    /// Each column is the text that the server sent, or `None` for NULL. `count` is the number of
    /// rows that the server reports at the end of the statement (`CommandComplete`), or 0.
    #[must_use]
    pub fn new(rows: Vec<Vec<Option<String>>>, count: u64) -> Self {
        Self(Outcome::new(rows.into_iter().map(Row::new).collect(), count))
    }

    #[cfg(any(feature = "bb8-postgres-0_9", feature = "deadpool-postgres-0_14"))]
    pub(super) fn of(outcome: Outcome) -> Self {
        Self(outcome)
    }

    pub(super) fn into_outcome(self) -> Outcome {
        self.0
    }
}

/// Reports that a [`Pool`] lent no connection, or that a [`PoolConnection`] failed.
#[derive(Debug)]
pub struct PoolError {
    sqlstate: Option<String>,
    exhausted: bool,
    source: BoxError,
}

impl PoolError {
    /// Creates an error from the pool's or the driver's own error.
    ///
    /// The text of `source` becomes part of [`Error`]s and log lines, so it must not contain a
    /// password.
    ///
    /// [`Error`]: crate::Error
    #[must_use]
    pub fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { sqlstate: None, exhausted: false, source: source.into() }
    }

    /// Creates an error for a pool whose connections are all in use.
    ///
    /// Return this error when the pool has stopped waiting for a free connection. A call that is
    /// joining a lock's queue then fails without another attempt, because its caller may hold one
    /// of the connections. A waiter in the queue of a mutex, read-write lock or election tries
    /// again. If the server does not reply on the client's own connection either, the error counts
    /// as an outage of the server.
    #[must_use]
    pub fn exhausted(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { exhausted: true, ..Self::new(source) }
    }

    /// Adds the SQLSTATE that the server reported, such as `55P03`.
    #[must_use]
    pub fn with_sqlstate(self, sqlstate: impl Into<String>) -> Self {
        Self { sqlstate: Some(sqlstate.into()), ..self }
    }

    /// Returns the SQLSTATE if the server reported the error.
    #[must_use]
    pub fn sqlstate(&self) -> Option<&str> {
        self.sqlstate.as_deref()
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted
    }
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.sqlstate {
            Some(sqlstate) => write!(f, "{} ({sqlstate})", self.source),
            None => self.source.fmt(f),
        }
    }
}

impl Error for PoolError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.source()
    }
}
