//! Lets a client use the pool of `deadpool-postgres` 0.14.

use deadpool_postgres_0_14::{Object, Pool as Deadpool, PoolError as DeadpoolError};

use super::{
    driver::{failed, run},
    pool::{Pool, PoolConnection, PoolError, PoolFuture, StatementResult},
};

/// Lends one connection of the pool for each request: see [`Builder::postgres_pool`]. Requires the
/// feature `deadpool-postgres-0_14`.
///
/// [`Builder::postgres_pool`]: crate::Builder::postgres_pool
impl Pool for Deadpool {
    fn acquire(&self) -> PoolFuture<'_, Box<dyn PoolConnection>> {
        Box::pin(async {
            match self.get().await {
                Ok(connection) => {
                    let lent = Lent { connection: Some(connection), unread: false };
                    Ok(Box::new(lent) as Box<dyn PoolConnection>)
                }
                Err(DeadpoolError::Backend(error)) => Err(failed(error)),
                Err(error @ DeadpoolError::Timeout(_)) => Err(PoolError::exhausted(error)),
                Err(error) => Err(PoolError::new(error)),
            }
        })
    }
}

struct Lent {
    connection: Option<Object>,
    /// The rest of the reply is unread.
    unread: bool,
}

impl PoolConnection for Lent {
    fn run<'a>(mut self: Box<Self>, statements: &'a str) -> PoolFuture<'a, Vec<StatementResult>> {
        Box::pin(async move {
            self.unread = true;
            let results = match &self.connection {
                Some(connection) => run(connection, statements).await,
                None => Err(PoolError::new("connection closed")),
            };
            // After an error of the server only the end of the reply follows.
            self.unread = matches!(&results, Err(error) if error.sqlstate().is_none());
            results
        })
    }
}

impl Drop for Lent {
    /// deadpool would lend it to other requests, which would wait for the rest of the reply.
    fn drop(&mut self) {
        if self.unread {
            // A connection that was taken out of the pool is closed.
            drop(self.connection.take().map(Object::take));
        }
    }
}
