//! Valkey passes every case. Needs the server of `docker/up`.

#![allow(clippy::expect_used)] // also outside of the test functions

mod common;

use common::{cases_for, conformance, network_conformance, redis::Valkey};

conformance!(Valkey);
network_conformance!(Valkey);

mod waiting {
    use super::*;

    cases_for! { Valkey, alone,
        waiting::who_waits_behind_the_living_asks_for_nothing,
        waiting::requests_of_a_handover_are_counted,
        waiting::a_client_is_told_once_of_a_release,
    }
}

/// No test: `common/process.rs` runs this binary once more to have a process that it can kill.
#[test]
fn job_of_another_process() {
    common::process::run_job();
}
