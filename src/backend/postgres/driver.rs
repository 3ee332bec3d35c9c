//! Requests on `tokio-postgres` connections of a user's pool.

use tokio_postgres::{Client, Error};

use super::{
    connection::outcomes,
    pool::{PoolError, StatementResult},
};

pub(super) async fn run(
    client: &Client,
    statements: &str,
) -> Result<Vec<StatementResult>, PoolError> {
    let replies = client.simple_query(statements).await.map_err(failed)?;
    Ok(outcomes(replies).into_iter().map(StatementResult::of).collect())
}

/// Returns the server's message without its detail, which may contain a value.
pub(super) fn failed(error: Error) -> PoolError {
    match error.as_db_error() {
        Some(reported) => PoolError::new(reported.message()).with_sqlstate(reported.code().code()),
        None => PoolError::new(error),
    }
}
