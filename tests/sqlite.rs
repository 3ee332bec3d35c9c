//! SQLite passes every case, and some of its own. Needs no server.

#![allow(clippy::expect_used)] // also outside of the test functions

#[cfg(feature = "blocking")]
#[path = "sqlite/blocking.rs"]
mod blocking;
mod common;
#[path = "sqlite/files.rs"]
mod files;
#[path = "sqlite/processes.rs"]
mod processes;
#[path = "sqlite/transactions.rs"]
mod transactions;

use common::{conformance, sqlite::Sqlite};

conformance!(Sqlite);

/// No test: `common/process.rs` runs this binary once more to have a process that it can kill.
#[test]
fn job_of_another_process() {
    common::process::run_job();
}
