//! Connection pools of the application.

pub(super) mod exhausted;
mod others;
mod settings;

use std::time::Duration;

use distlock::{Builder, Client};
use sqlx::PgPool;

use super::place;
use crate::common::hosts;

/// The request timeout.
pub(super) const REQUEST: Duration = Duration::from_secs(1);

/// Returns a client that uses this pool, with a new namespace.
pub(super) fn client_of(pool: &PgPool) -> Builder {
    Client::builder(place::url())
        .postgres_pool(pool.clone())
        .namespace(format!("/t-{:016x}", fastrand::u64(..)))
        .request_timeout(REQUEST)
}

pub(super) fn pool_of(url: &str, connections: u32) -> PgPool {
    hosts::pool_of(url, connections)
}
