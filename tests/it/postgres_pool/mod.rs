//! PostgreSQL by way of a pool of sqlx passes every case, and some of its own. Needs the server of
//! `docker/up postgres`.

mod exhausted;
mod others;
mod settings;

use std::time::Duration;

use distlock::{Builder, Client};
use distlock_testkit::servers::postgres_url;
use sqlx::PgPool;

use crate::common::{conformance, network_conformance, postgres::SqlxPool};

conformance!(SqlxPool);
network_conformance!(SqlxPool);

/// How long a request may take.
const REQUEST: Duration = Duration::from_secs(1);

/// A client that uses this pool, with a namespace of its own.
fn client_of(pool: &PgPool) -> Builder {
    Client::builder(postgres_url())
        .postgres_pool(pool.clone())
        .namespace(format!("/t-{:016x}", fastrand::u64(..)))
        .request_timeout(REQUEST)
}
