//! What a pool of the user's own has to do for a client: see [`Builder::postgres_pool`].
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

/// What the methods of [`Pool`] and [`PoolConnection`] return: `Box::pin(async move { … })`.
pub type PoolFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, PoolError>> + Send + 'a>>;

/// A pool of connections to PostgreSQL that [`Builder::postgres_pool`] takes.
///
/// The pools of sqlx, deadpool-postgres and bb8-postgres implement it, with the features
/// `sqlx-0_9`, `deadpool-postgres-0_14` and `bb8-postgres-0_9`. For another pool, implement it for
/// a type of your own. The futures are polled by threads that keep sessions alive, so they must
/// not block. Connections that the pool makes there belong to the client's runtime: see
/// [`Builder::runtime`].
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
    /// Waits for a connection that is in no transaction.
    ///
    /// # Errors
    ///
    /// An error means that nothing was sent, whatever it is.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped when the client does not wait any longer. The pool must then keep the
    /// connection, or close it.
    fn acquire(&self) -> PoolFuture<'_, Box<dyn PoolConnection>>;
}

/// The pool that a client was given.
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
    /// What the user's type shows may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserPool")
    }
}

/// A connection that a [`Pool`] has lent for one request.
pub trait PoolConnection: Send {
    /// Runs several statements as **one message of the simple query protocol**, and returns the
    /// result of each in order. The connection goes back to the pool afterwards.
    ///
    /// The statements must not be sent one by one, nor in a transaction block: the server runs one
    /// message as one transaction. The client verifies that by what the statements return.
    ///
    /// # Errors
    ///
    /// An error of the server carries its SQLSTATE ([`PoolError::with_sqlstate`]), by which the
    /// client knows that the transaction was undone. With any other error the client does not know
    /// what became of the transaction.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped when the client does not wait any longer, with replies of the server
    /// still to come. The connection must not go back to the pool in that state: close it, or
    /// return it once all replies have been read.
    fn run<'a>(self: Box<Self>, statements: &'a str) -> PoolFuture<'a, Vec<StatementResult>>;
}

/// The result of one statement that a [`PoolConnection`] has run.
#[derive(Debug)]
pub struct StatementResult(Outcome);

impl StatementResult {
    /// Takes the rows, with each column as the server's text or `None` for NULL, and the number of
    /// rows that the server reports with the end of the statement (`CommandComplete`), or 0.
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

/// Why a [`Pool`] lent no connection, or a [`PoolConnection`] returned no result.
#[derive(Debug)]
pub struct PoolError {
    sqlstate: Option<String>,
    exhausted: bool,
    source: BoxError,
}

impl PoolError {
    /// Takes the error of the pool or of its driver. Its words become part of [`Error`]s and log
    /// lines, so it must not contain a password.
    ///
    /// [`Error`]: crate::Error
    #[must_use]
    pub fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { sqlstate: None, exhausted: false, source: source.into() }
    }

    /// Takes the error of a pool whose connections are all in use, and have been for as long as the
    /// pool waits. A call for a lock then fails, as its caller may have one of them.
    #[must_use]
    pub fn exhausted(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { exhausted: true, ..Self::new(source) }
    }

    /// Adds the SQLSTATE of an error that the server has reported, such as `55P03`.
    #[must_use]
    pub fn with_sqlstate(self, sqlstate: impl Into<String>) -> Self {
        Self { sqlstate: Some(sqlstate.into()), ..self }
    }

    /// Returns the SQLSTATE if the server has reported the error.
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
