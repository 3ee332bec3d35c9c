//! Connection pools of the application.

mod exhausted;
mod others;
mod settings;

use std::time::Duration;

use distlock::{Builder, Client};
use distlock_testkit::servers::postgres_url;
use sqlx::PgPool;

use crate::common::hosts;

/// The request timeout.
const REQUEST: Duration = Duration::from_secs(1);

/// Returns a client that uses this pool, with a new namespace.
fn client_of(pool: &PgPool) -> Builder {
    Client::builder(postgres_url())
        .postgres_pool(pool.clone())
        .namespace(format!("/t-{:016x}", fastrand::u64(..)))
        .request_timeout(REQUEST)
}

fn pool_of(url: &str, connections: u32) -> PgPool {
    hosts::pool_of(url, connections)
}
