//! etcd passes every case. Needs the servers of `docker/up`.

mod common;

use common::{conformance, etcd::Etcd, network_conformance};

conformance!(Etcd);
network_conformance!(Etcd);

/// No test: `common/process.rs` runs this binary once more to have a process that it can kill.
#[test]
fn job_of_another_process() {
    common::process::run_job();
}
