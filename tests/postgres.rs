//! PostgreSQL passes every case, and some of its own. Needs the server of `docker/up`.

#![allow(clippy::expect_used)] // also outside of the test functions

#[cfg(feature = "blocking")]
#[path = "postgres/blocking.rs"]
mod blocking;
#[path = "postgres/clock.rs"]
mod clock;
mod common;
#[path = "postgres/secured.rs"]
mod secured;
#[path = "postgres/tables.rs"]
mod tables;
#[path = "postgres/transactions.rs"]
mod transactions;

use common::{cases_for, conformance, network_conformance, postgres::Postgres};

conformance!(Postgres);
network_conformance!(Postgres);

mod waiting {
    use super::*;

    cases_for! { Postgres, alone, waiting::who_waits_behind_the_living_asks_for_nothing }
}

/// No test: `common/process.rs` runs this binary once more to have a process that it can kill.
#[test]
fn job_of_another_process() {
    common::process::run_job();
}
