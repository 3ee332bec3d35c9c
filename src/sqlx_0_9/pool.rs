//! Lets a client use sqlx's pool.

use futures_util::TryStreamExt;
use sqlx_0_9::{
    AssertSqlSafe, Either, Error, PgPool, Postgres, Row, ValueRef, pool, postgres::PgRow, raw_sql,
};

use crate::backend::postgres::pool::{
    Pool, PoolConnection, PoolError, PoolFuture, StatementResult,
};

/// Lends one of its connections for each request: see [`Builder::postgres_pool`].
///
/// sqlx tests a connection before and after each use, with one round trip for each test.
/// `PgPoolOptions::test_before_acquire(false)` saves the first one.
///
/// [`Builder::postgres_pool`]: crate::Builder::postgres_pool
impl Pool for PgPool {
    fn acquire(&self) -> PoolFuture<'_, Box<dyn PoolConnection>> {
        Box::pin(async {
            let connection = PgPool::acquire(self).await.map_err(failed)?;
            Ok(Box::new(Lent { connection, unread: false }) as Box<dyn PoolConnection>)
        })
    }
}

struct Lent {
    connection: pool::PoolConnection<Postgres>,
    /// The server may still be sending replies.
    unread: bool,
}

impl PoolConnection for Lent {
    fn run<'a>(mut self: Box<Self>, statements: &'a str) -> PoolFuture<'a, Vec<StatementResult>> {
        Box::pin(async move {
            self.unread = true;
            let results = run(&mut self.connection, statements).await;
            // After an error of the server, only the end of the reply follows. sqlx reads it before
            // the next use.
            self.unread = !matches!(results, Ok(_) | Err(Error::Database(_)));
            results.map_err(failed)
        })
    }
}

impl Drop for Lent {
    /// Closes a connection with unread replies. sqlx would lend it to another task, which would
    /// have to wait for the rest of the reply.
    fn drop(&mut self) {
        if self.unread {
            self.connection.close_on_drop();
        }
    }
}

/// Without parameters, sqlx sends one message of the simple protocol. A `PgQueryResult` marks the
/// end of each statement.
async fn run(
    connection: &mut pool::PoolConnection<Postgres>,
    statements: &str,
) -> Result<Vec<StatementResult>, Error> {
    let (mut results, mut rows) = (Vec::new(), Vec::new());
    let mut replies = raw_sql(AssertSqlSafe(statements.to_owned())).fetch_many(&mut **connection);
    while let Some(reply) = replies.try_next().await? {
        match reply {
            Either::Left(done) => {
                let rows = std::mem::take(&mut rows);
                results.push(StatementResult::new(rows, done.rows_affected()));
            }
            Either::Right(row) => rows.push(texts(&row)?),
        }
    }
    Ok(results)
}

/// Returns the columns of a row. The simple protocol sends every type as text.
fn texts(row: &PgRow) -> Result<Vec<Option<String>>, Error> {
    let text = |column| {
        let value = row.try_get_raw(column)?;
        if value.is_null() {
            return Ok(None);
        }
        value.as_str().map(|text| Some(text.to_owned())).map_err(Error::Decode)
    };
    (0..row.len()).map(text).collect()
}

/// Converts an error. The server's message is kept without its detail, which may contain a value.
fn failed(error: Error) -> PoolError {
    match &error {
        Error::Database(reported) => {
            let failed = PoolError::new(reported.message());
            match reported.code() {
                Some(code) => failed.with_sqlstate(code),
                None => failed,
            }
        }
        Error::PoolTimedOut => PoolError::exhausted(error),
        _ => PoolError::new(error),
    }
}
