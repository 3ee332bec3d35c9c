//! ZooKeeper passes every case, and some of its own. Needs the servers of `docker/up`.

#![allow(clippy::expect_used)] // also outside of the test functions

#[cfg(feature = "blocking")]
#[path = "zookeeper/blocking.rs"]
mod blocking;
mod common;
#[path = "zookeeper/directories.rs"]
mod directories;
#[path = "zookeeper/foreign.rs"]
mod foreign;
#[path = "zookeeper/forger.rs"]
mod forger;
#[path = "zookeeper/handoffs.rs"]
mod handoffs;
#[path = "zookeeper/members.rs"]
mod members;
#[path = "zookeeper/pauses.rs"]
mod pauses;
#[path = "zookeeper/persistent.rs"]
mod persistent;
#[path = "zookeeper/rights.rs"]
mod rights;
#[path = "zookeeper/secured.rs"]
mod secured;
#[path = "zookeeper/sessions.rs"]
mod sessions;
#[path = "zookeeper/strangers.rs"]
mod strangers;

use common::{conformance, network_conformance, zookeeper::ZooKeeper};

conformance!(ZooKeeper);
network_conformance!(ZooKeeper);

/// No test: `common/process.rs` runs this binary once more to have a process that it can kill.
#[test]
fn job_of_another_process() {
    common::process::run_job();
}
