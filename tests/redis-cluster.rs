//! A cluster of Redis passes every case. Needs the servers of `docker/up redis-cluster`.

#![allow(clippy::expect_used)] // also outside of the test functions

mod common;

use common::{conformance, network_conformance, redis::Cluster};

conformance!(Cluster);
network_conformance!(Cluster);

/// No test: `common/process.rs` runs this binary once more to have a process that it can kill.
#[test]
fn job_of_another_process() {
    common::process::run_job();
}
