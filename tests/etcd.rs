//! etcd passes every case, and some of its own. Needs the servers of `docker/up`.

#![allow(clippy::expect_used)] // also outside of the test functions

#[path = "etcd/answers.rs"]
mod answers;
#[cfg(feature = "blocking")]
#[path = "etcd/blocking.rs"]
mod blocking;
mod common;
#[path = "etcd/foreign.rs"]
mod foreign;
#[path = "etcd/members.rs"]
mod members;
#[path = "etcd/secured.rs"]
mod secured;
#[path = "etcd/turns.rs"]
mod turns;
#[path = "etcd/words.rs"]
mod words;

use common::{conformance, etcd::Etcd, network_conformance};

conformance!(Etcd);
network_conformance!(Etcd);

/// No test: `common/process.rs` runs this binary once more to have a process that it can kill.
#[test]
fn job_of_another_process() {
    common::process::run_job();
}
