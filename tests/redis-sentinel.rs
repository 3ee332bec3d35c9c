//! Redis with sentinels, and with two replicas that are waited for, passes every case. Needs the
//! servers of `docker/up redis-sentinel`.

#![allow(clippy::expect_used)] // also outside of the test functions

mod common;

use common::{conformance, network_conformance, redis::Sentinel};

conformance!(Sentinel);
network_conformance!(Sentinel);

/// No test: `common/process.rs` runs this binary once more to have a process that it can kill.
#[test]
fn job_of_another_process() {
    common::process::run_job();
}
