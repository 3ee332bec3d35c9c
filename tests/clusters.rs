//! Both clusters, with servers that come and go and with crowds at one lock. Needs the servers of
//! `docker/up`.

#![allow(clippy::expect_used, clippy::panic)] // also outside of the test functions

// Of what there is for the other tests, these use a part.
#[allow(dead_code, unused_imports, unused_macros)]
mod common;
#[path = "clusters/crowds.rs"]
mod crowds;
#[path = "clusters/endpoints.rs"]
mod endpoints;
#[path = "clusters/members.rs"]
mod members;
#[path = "clusters/restarts.rs"]
mod restarts;
#[path = "clusters/space.rs"]
mod space;
#[path = "clusters/zookeeper.rs"]
mod zookeeper;

use common::{Case, beside_others, etcd::Etcd, zookeeper::ZooKeeper};
use tokio::sync::Mutex;

static ALONE: Mutex<()> = Mutex::const_new(());

/// Runs a test while no other runs in this process.
async fn on_etcd(test: impl AsyncFn(&Case)) {
    let _alone = ALONE.lock().await;
    beside_others::<Etcd>(&test).await;
}

/// Runs a test on both clusters at the same time, while no other runs in this process.
async fn on_both(test: impl AsyncFn(&Case)) {
    let _alone = ALONE.lock().await;
    tokio::join!(beside_others::<Etcd>(&test), beside_others::<ZooKeeper>(&test));
}

/// Runs a test on one cluster after the other, while no other runs in this process.
async fn on_each(test: impl AsyncFn(&Case)) {
    let _alone = ALONE.lock().await;
    beside_others::<Etcd>(&test).await;
    beside_others::<ZooKeeper>(&test).await;
}

/// No test: `common/process.rs` runs this binary once more to have a process that it can kill.
#[test]
fn job_of_another_process() {
    common::process::run_job();
}
