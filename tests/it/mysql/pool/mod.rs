//! Connection pools of the application.

mod exhausted;
mod others;
mod settings;

use std::time::Duration;

use distlock::{Builder, Client};
use distlock_testkit::servers::mysql_url;
use sqlx::MySqlPool;

use crate::common::hosts;

/// The request timeout.
const REQUEST: Duration = Duration::from_secs(1);

/// Returns a client that uses this pool, with a new namespace.
fn client_of(pool: &MySqlPool) -> Builder {
    Client::builder(mysql_url())
        .mysql_pool(pool.clone())
        .namespace(format!("/t-{:016x}", fastrand::u64(..)))
        .request_timeout(REQUEST)
}

fn pool_of(url: &str, connections: u32) -> MySqlPool {
    hosts::pool_of(url, connections)
}
