//! The traits that a user's pool implements for [`Builder::mysql_pool`].
//!
//! [`Builder::mysql_pool`]: crate::Builder::mysql_pool

use std::{error::Error, fmt, pin::Pin, sync::Arc};

use super::sent::ServerError;
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

/// A pool of connections to MySQL or MariaDB, for [`Builder::mysql_pool`].
///
/// The pools of sqlx and mysql_async implement this trait with the features `sqlx-0_9` and
/// `mysql_async-0_37`. To use another pool, implement the trait for a type of your own. The futures
/// are polled on the threads that keep sessions alive, and must not block these threads.
/// Connections that the pool opens on these threads are bound to the client's runtime: see
/// [`Builder::runtime`].
///
/// [`Builder::mysql_pool`]: crate::Builder::mysql_pool
/// [`Builder::runtime`]: crate::Builder::runtime
///
/// ```
/// use distlock::mysql::{Pool, PoolConnection, PoolError, PoolFuture};
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
/// let builder = distlock::Client::builder("mysql://127.0.0.1/app").mysql_pool(Closed);
/// ```
pub trait Pool: Send + Sync + 'static {
    /// Waits for a connection without an open transaction.
    ///
    /// # Errors
    ///
    /// Every error means that no request was sent. If the server reported the error, attach its
    /// number with [`PoolError::with_code`].
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
///
/// The connection returns to the pool only through [`release`](Self::release). Dropping the value
/// **must close the connection**: replies from the server may still arrive, or a transaction may be
/// open.
pub trait PoolConnection: Send {
    /// Runs several statements, and returns the result of each in order.
    ///
    /// The argument is **one string** of several statements (`COM_QUERY`, with
    /// `CLIENT_MULTI_STATEMENTS`). Send the string unchanged. In particular, do not wrap the
    /// statements in a transaction: they contain their own. If the server refuses a statement, its
    /// result is the last one, because the server does not run the later statements.
    ///
    /// # Errors
    ///
    /// An error means that the connection has failed and that the outcome of the statements is
    /// unknown. For a statement that the server refuses, return a
    /// [result](StatementResult::refused), not an error.
    ///
    /// # Cancel safety
    ///
    /// The client drops the future when it stops waiting, although replies from the server may
    /// still arrive. The client then also drops the connection.
    fn run<'a>(&'a mut self, statements: &'a str) -> PoolFuture<'a, Vec<StatementResult>>;

    /// Returns the connection to the pool.
    ///
    /// At this point, all replies have been read. A transaction is open only if it was open when
    /// the connection was lent. The connection's settings are the same as then.
    fn release(self: Box<Self>);
}

/// The result of one statement that a [`PoolConnection`] has run.
#[derive(Debug)]
pub struct StatementResult(Result<Outcome, ServerError>);

impl StatementResult {
    /// Creates a result from the rows and the row count of a statement.
    ///
    /// Each column is the text that the server sent, or `None` for NULL. `affected` is the number
    /// of affected rows that the server reports, or 0. Columns that are not UTF-8 may be converted
    /// with [`String::from_utf8_lossy`].
    #[must_use]
    pub fn new(rows: Vec<Vec<Option<String>>>, affected: u64) -> Self {
        let count = if rows.is_empty() { affected } else { rows.len().try_into().unwrap_or(0) };
        Self(Ok(Outcome::new(rows.into_iter().map(Row::new).collect(), count)))
    }

    /// Creates the result of a statement that the server has refused.
    ///
    /// `code` is the number of the error, such as 1213, and `message` is its text.
    #[must_use]
    pub fn refused(code: u16, sqlstate: impl Into<String>, message: impl Into<String>) -> Self {
        Self(Err(ServerError { code, state: sqlstate.into(), message: message.into() }))
    }

    #[cfg(feature = "mysql_async-0_37")]
    pub(super) fn of(outcome: Outcome) -> Self {
        Self(Ok(outcome))
    }

    #[cfg(feature = "mysql_async-0_37")]
    pub(super) fn of_refused(refused: ServerError) -> Self {
        Self(Err(refused))
    }

    pub(super) fn into_result(self) -> Result<Outcome, ServerError> {
        self.0
    }
}

/// Reports that a [`Pool`] lent no connection, or that a [`PoolConnection`] failed.
#[derive(Debug)]
pub struct PoolError {
    code: Option<u16>,
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
        Self { code: None, exhausted: false, source: source.into() }
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

    /// Adds the error number that the server reported, such as 1045.
    #[must_use]
    pub fn with_code(self, code: u16) -> Self {
        Self { code: Some(code), ..self }
    }

    /// Returns the error number if the server reported the error.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        self.code
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// Returns the text of the error with those of its sources.
    pub(super) fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut source = self.source();
        while let Some(error) = source {
            text += &format!(": {error}");
            source = error.source();
        }
        text
    }
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(f, "{} ({code})", self.source),
            None => self.source.fmt(f),
        }
    }
}

impl Error for PoolError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.source()
    }
}
