//! The conformance suite: one list of cases that every store has to pass.
//!
//! A test binary calls `conformance!(ItsHarness)` and gets all of them. A case that is missing in
//! the list is dead code and fails the lints, so none is forgotten.

#![allow(clippy::expect_used, clippy::panic)] // a test fails by panicking
// With a subset of the store features, parts of the suite are unused.
#![cfg_attr(
    not(all(
        feature = "blocking",
        feature = "etcd",
        feature = "mysql",
        feature = "postgres",
        feature = "redis",
        feature = "redlock",
        feature = "zookeeper"
    )),
    allow(dead_code, unused_imports, unused_macros)
)]

#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) mod brief;
pub(crate) mod case;
pub(crate) mod cases;
pub(crate) mod clients;
pub(crate) mod database;
#[cfg(feature = "etcd")]
pub(crate) mod etcd;
pub(crate) mod harness;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) mod hosts;
mod lists;
pub(crate) mod loss;
pub(crate) mod memory;
#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis", feature = "redlock"))]
pub(crate) mod own;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod programs;
pub(crate) mod raw;
#[cfg(any(feature = "redis", feature = "redlock"))]
pub(crate) mod redis;
#[cfg(feature = "redlock")]
pub(crate) mod redlock;
pub(crate) mod secrets;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis", feature = "redlock"))]
pub(crate) mod single;
pub(crate) mod sql;
pub(crate) mod sqlite;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) mod together;
#[cfg(feature = "zookeeper")]
pub(crate) mod zookeeper;

use std::time::Duration;

use tokio::sync::{RwLock, RwLockReadGuard};

// Imports that nearly every test needs.
pub(crate) use {case::*, clients::*, harness::*, lists::*, loss::*};

/// Cases that read the counters of shared servers take this lock for writing, so that they run
/// alone. All other cases take it for reading.
static COMPANY: RwLock<()> = RwLock::const_new(());

/// The time limit of a case.
const LIMIT: Duration = Duration::from_secs(60);

/// The time limit of a case whose amount of work is configurable.
const LONG: Duration = Duration::from_secs(3600);

/// Prevents cases that read shared server counters from running at the same time.
pub(crate) async fn company() -> RwLockReadGuard<'static, ()> {
    COMPANY.read().await
}

/// Runs a case concurrently with others.
pub(crate) async fn beside_others<H: Harness>(case: impl AsyncFnOnce(&Case<H>)) {
    let _company = if H::is_shared() { Some(COMPANY.read().await) } else { None };
    run::<H>(LIMIT, case).await;
}

/// Runs a case concurrently with others, and allows it a long time.
pub(crate) async fn for_long<H: Harness>(case: impl AsyncFnOnce(&Case<H>)) {
    let _company = if H::is_shared() { Some(COMPANY.read().await) } else { None };
    run::<H>(LONG, case).await;
}

/// Runs a case while no other case uses its store.
pub(crate) async fn alone<H: Harness>(case: impl AsyncFnOnce(&Case<H>)) {
    let _company = if H::is_shared() { Some(COMPANY.write().await) } else { None };
    run::<H>(LIMIT, case).await;
}

async fn run<H: Harness>(limit: Duration, case: impl AsyncFnOnce(&Case<H>)) {
    let test = async {
        let setting = Case::<H>::new().await;
        case(&setting).await;
        setting.end().await;
    };
    // On the heap: a test's thread has little stack.
    tokio::time::timeout(limit, Box::pin(test)).await.expect("the case hangs");
}
