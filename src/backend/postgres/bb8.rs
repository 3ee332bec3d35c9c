//! Lets a client use the pool of `bb8-postgres` 0.9.

use bb8_postgres_0_9::{
    PostgresConnectionManager,
    bb8::{self, PooledConnection, RunError},
};
use tokio_postgres::{
    Socket,
    tls::{MakeTlsConnect, TlsConnect},
};

use super::{
    driver::{failed, run},
    pool::{Pool, PoolConnection, PoolError, PoolFuture, StatementResult},
};
use crate::runtime::executor::spawn_abortable;

/// Lends one connection of the pool for each request: see [`Builder::postgres_pool`]. Requires the
/// feature `bb8-postgres-0_9`.
///
/// [`Builder::postgres_pool`]: crate::Builder::postgres_pool
impl<Tls> Pool for bb8::Pool<PostgresConnectionManager<Tls>>
where
    Tls: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    Tls::Stream: Send + Sync,
    Tls::TlsConnect: Send,
    <Tls::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    fn acquire(&self) -> PoolFuture<'_, Box<dyn PoolConnection>> {
        Box::pin(async {
            match self.get_owned().await {
                Ok(connection) => Ok(Box::new(Lent(connection)) as Box<dyn PoolConnection>),
                Err(RunError::User(error)) => Err(failed(error)),
                Err(error @ RunError::TimedOut) => Err(PoolError::exhausted(error)),
            }
        })
    }
}

struct Lent<Tls>(PooledConnection<'static, PostgresConnectionManager<Tls>>)
where
    Tls: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    Tls::Stream: Send + Sync,
    Tls::TlsConnect: Send,
    <Tls::TlsConnect as TlsConnect<Socket>>::Future: Send;

impl<Tls> PoolConnection for Lent<Tls>
where
    Tls: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    Tls::Stream: Send + Sync,
    Tls::TlsConnect: Send,
    <Tls::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    /// bb8 cannot close a connection. A task therefore keeps it until the whole reply has arrived,
    /// even if the request has timed out.
    fn run<'a>(self: Box<Self>, statements: &'a str) -> PoolFuture<'a, Vec<StatementResult>> {
        let (reply, ran) = tokio::sync::oneshot::channel();
        let (connection, statements) = (self.0, statements.to_owned());
        Box::pin(async {
            spawn_abortable(async move {
                let results = run(&connection, &statements).await;
                drop(connection);
                drop(reply.send(results));
            });
            ran.await.unwrap_or_else(|_| Err(PoolError::new("the runtime was shut down")))
        })
    }
}
