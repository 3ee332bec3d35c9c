//! Every store passes one list of cases, and some of its own. A store's tests need its servers
//! (`docker/up`), except for memory and SQLite: `cargo test --features redis --test it redis::`.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // also outside of test functions

#[cfg(feature = "blocking")]
mod blocking;
mod bounds;
#[cfg(all(feature = "etcd", feature = "zookeeper"))]
mod clusters;
mod common;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "etcd")]
mod etcd_model;
#[cfg(all(feature = "mysql", feature = "postgres", feature = "redis"))]
mod failover;
mod memory;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "mysql")]
mod mysql_pool;
mod paused;
#[cfg(feature = "postgres")]
mod pgbouncer;
mod pinned;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres-embedded")]
mod postgres_embedded;
#[cfg(feature = "postgres")]
mod postgres_pool;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
mod redis_cluster;
#[cfg(feature = "redis")]
mod redis_model;
#[cfg(feature = "redis")]
mod redis_sentinel;
#[cfg(feature = "redlock")]
mod redlock;
#[cfg(feature = "redlock")]
mod redlock_model;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "redis")]
mod valkey;
#[cfg(feature = "zookeeper")]
mod zookeeper;
#[cfg(feature = "zookeeper")]
mod zookeeper_model;

/// Not a test: `common/process.rs` runs this program again to have a process that it can kill.
#[test]
fn job_of_another_process() {
    common::process::run_job();
}
