//! MySQL passes every case, and some of its own. Needs the server of `docker/up`.

#![allow(clippy::expect_used)] // also outside of the test functions

#[cfg(feature = "blocking")]
#[path = "mysql/blocking.rs"]
mod blocking;
#[path = "mysql/clock.rs"]
mod clock;
mod common;
#[path = "mysql/secured.rs"]
mod secured;
#[path = "mysql/tables.rs"]
mod tables;
#[path = "mysql/transactions.rs"]
mod transactions;

use common::{conformance, mysql::Mysql, network_conformance};

conformance!(Mysql);
network_conformance!(Mysql);

/// No test: `common/process.rs` runs this binary once more to have a process that it can kill.
#[test]
fn job_of_another_process() {
    common::process::run_job();
}
