//! What a pool of the user's own has to do for a client: see [`Builder::mysql_pool`].
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

/// What the methods of [`Pool`] and [`PoolConnection`] return: `Box::pin(async move { … })`.
pub type PoolFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, PoolError>> + Send + 'a>>;

/// A pool of connections to MySQL or MariaDB that [`Builder::mysql_pool`] takes.
///
/// The pools of sqlx and mysql_async implement it, with the features `sqlx-0_9` and
/// `mysql_async-0_37`. For another pool, implement it for a type of your own. The futures are
/// polled by threads that keep sessions alive, so they must not block. Connections that the pool
/// makes there belong to the client's runtime: see [`Builder::runtime`].
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
    /// Waits for a connection that is in no transaction.
    ///
    /// # Errors
    ///
    /// An error means that nothing was sent, whatever it is. An error of the server carries its
    /// number ([`PoolError::with_code`]).
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
///
/// It goes back to the pool by [`release`](Self::release) alone. A value that is dropped **must
/// close its connection**: replies of the server may still come, or a transaction may be open.
pub trait PoolConnection: Send {
    /// Runs several statements as **one text** (`COM_QUERY`, with `CLIENT_MULTI_STATEMENTS`), and
    /// returns the result of each in order. If the server refuses a statement, the result of that
    /// one is the last: the server runs no later one.
    ///
    /// Nothing may be added, such as a transaction around the statements: they bring their own.
    ///
    /// # Errors
    ///
    /// An error means that the connection has failed. The client does not know then what became of
    /// the statements. A statement that the server refuses is no error but a
    /// [result](StatementResult::refused).
    ///
    /// # Cancel safety
    ///
    /// The future is dropped when the client does not wait any longer, with replies of the server
    /// still to come. The client drops the connection afterwards.
    fn run<'a>(&'a mut self, statements: &'a str) -> PoolFuture<'a, Vec<StatementResult>>;

    /// Gives the connection back to the pool: all replies were read, no transaction is open, and
    /// its settings are those that it was lent with.
    fn release(self: Box<Self>);
}

/// The result of one statement that a [`PoolConnection`] has run.
#[derive(Debug)]
pub struct StatementResult(Result<Outcome, ServerError>);

impl StatementResult {
    /// Takes the rows, with each column as the server's text or `None` for NULL, and the number of
    /// rows that the server reports as affected, or 0. Columns that are not UTF-8 may be replaced
    /// as [`String::from_utf8_lossy`] does.
    #[must_use]
    pub fn new(rows: Vec<Vec<Option<String>>>, affected: u64) -> Self {
        let count = if rows.is_empty() { affected } else { rows.len().try_into().unwrap_or(0) };
        Self(Ok(Outcome::new(rows.into_iter().map(Row::new).collect(), count)))
    }

    /// Takes the error by which the server has refused the statement: its number, such as 1213, its
    /// SQLSTATE and its text.
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

/// Why a [`Pool`] lent no connection, or a [`PoolConnection`] has failed.
#[derive(Debug)]
pub struct PoolError {
    code: Option<u16>,
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
        Self { code: None, exhausted: false, source: source.into() }
    }

    /// Takes the error of a pool whose connections are all in use, and have been for as long as the
    /// pool waits. A call for a lock then fails, as its caller may have one of them.
    #[must_use]
    pub fn exhausted(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { exhausted: true, ..Self::new(source) }
    }

    /// Adds the number of an error that the server has reported, such as 1045.
    #[must_use]
    pub fn with_code(self, code: u16) -> Self {
        Self { code: Some(code), ..self }
    }

    /// Returns the number of the error if the server has reported it.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        self.code
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// The error with those behind it.
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
