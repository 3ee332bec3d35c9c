//! Lets a client use the pool of `mysql_async` 0.37.

use futures_util::FutureExt;
use mysql_async::{Conn, Error, Pool as MysqlAsync};

use super::{
    driver::{ask, server_error},
    pool::{Pool, PoolConnection, PoolError, PoolFuture, StatementResult},
};

/// Lends one connection of the pool for each request: see [`Builder::mysql_pool`]. Requires the
/// feature `mysql_async-0_37`.
///
/// mysql_async resets a connection after each use. `PoolOpts::with_reset_connection(false)` saves
/// that round trip.
///
/// [`Builder::mysql_pool`]: crate::Builder::mysql_pool
impl Pool for MysqlAsync {
    fn acquire(&self) -> PoolFuture<'_, Box<dyn PoolConnection>> {
        Box::pin(async {
            let connection = self.get_conn().await.map_err(failed)?;
            Ok(Box::new(Lent(Some(connection))) as Box<dyn PoolConnection>)
        })
    }
}

struct Lent(Option<Conn>);

impl PoolConnection for Lent {
    fn run<'a>(&'a mut self, statements: &'a str) -> PoolFuture<'a, Vec<StatementResult>> {
        Box::pin(async move {
            let Some(connection) = &mut self.0 else {
                return Err(PoolError::new("connection closed"));
            };
            let answer = ask(connection, statements).await.map_err(PoolError::new)?;
            let results = answer.outcomes.into_iter().map(StatementResult::of);
            Ok(results.chain(answer.refused.map(StatementResult::of_refused)).collect())
        })
    }

    fn release(mut self: Box<Self>) {
        drop(self.0.take());
    }
}

impl Drop for Lent {
    /// mysql_async would first read the rest of a reply, however long that takes.
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            let _ = connection.disconnect().now_or_never();
        }
    }
}

fn failed(error: Error) -> PoolError {
    match server_error(error) {
        Ok(refused) => PoolError::new(refused.message).with_code(refused.code),
        Err(error) => PoolError::new(error),
    }
}
