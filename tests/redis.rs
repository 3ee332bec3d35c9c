//! Redis passes every case, and some of its own. Needs the server of `docker/up`.

#![allow(clippy::expect_used)] // also outside of the test functions

#[cfg(feature = "blocking")]
#[path = "redis/blocking.rs"]
mod blocking;
#[path = "redis/bridge.rs"]
mod bridge;
#[path = "redis/bridged.rs"]
mod bridged;
#[path = "redis/clock.rs"]
mod clock;
mod common;
#[path = "redis/emptied.rs"]
mod emptied;
#[path = "redis/killed.rs"]
mod killed;
#[cfg(feature = "tracing")]
#[path = "redis/logged.rs"]
mod logged;
#[path = "redis/others.rs"]
mod others;
#[path = "redis/own.rs"]
mod own;
#[path = "redis/secured.rs"]
mod secured;
#[path = "redis/servers.rs"]
mod servers;

use common::{cases_for, conformance, network_conformance, redis::Redis};

conformance!(Redis);
network_conformance!(Redis);

mod waiting {
    use super::*;

    cases_for! { Redis, alone,
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
