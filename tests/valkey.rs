//! Valkey passes every case. Needs the server of `docker/up`.

#![allow(clippy::expect_used)] // also outside of the test functions

mod common;

use common::{conformance, network_conformance, redis::Valkey};

conformance!(Valkey);
network_conformance!(Valkey);

/// No test: `common/process.rs` runs this binary once more to have a process that it can kill.
#[test]
fn job_of_another_process() {
    common::process::run_job();
}
