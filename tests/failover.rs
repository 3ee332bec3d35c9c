//! Databases of several servers, of which one goes on when another one is lost: each test has
//! servers of its own, of the images of `docker/up`.

#![allow(clippy::expect_used, clippy::panic)] // also outside of the test functions

// Of what there is for the other tests, these use a part.
#[path = "failover/beside.rs"]
mod beside;
#[allow(dead_code, unused_imports, unused_macros)]
mod common;
#[path = "failover/galera.rs"]
mod galera;
#[path = "failover/mysql.rs"]
mod mysql;
#[path = "failover/pair.rs"]
mod pair;
#[path = "failover/pgbouncer.rs"]
mod pgbouncer;
#[path = "failover/postgres.rs"]
mod postgres;
#[path = "failover/promotion.rs"]
mod promotion;
#[path = "failover/redis.rs"]
mod redis;
#[path = "failover/redis_cluster.rs"]
mod redis_cluster;
#[path = "failover/sentinel.rs"]
mod sentinel;

use std::time::Duration;

/// How long the sessions live, unless one is to live for longer.
const TTL: Duration = Duration::from_secs(3);

/// No test: `common/process.rs` runs this binary once more to have a process that it can kill.
#[test]
fn job_of_another_process() {
    common::process::run_job();
}
