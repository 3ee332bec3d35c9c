//! Pools of connections that users have anyway.

mod exhausted;
mod others;
mod settings;

use std::time::Duration;

use distlock::{Builder, Client};
use distlock_testkit::servers::postgres_url;
use sqlx::PgPool;

use crate::common::hosts;

/// How long a request may take.
const REQUEST: Duration = Duration::from_secs(1);

/// A client that uses this pool, with a namespace of its own.
fn client_of(pool: &PgPool) -> Builder {
    Client::builder(postgres_url())
        .postgres_pool(pool.clone())
        .namespace(format!("/t-{:016x}", fastrand::u64(..)))
        .request_timeout(REQUEST)
}

fn pool_of(url: &str, connections: u32) -> PgPool {
    hosts::pool_of(url, connections)
}
