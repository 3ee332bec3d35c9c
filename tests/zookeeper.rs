//! ZooKeeper passes every case. Needs the servers of `docker/up`.

mod common;

use common::{conformance, network_conformance, zookeeper::ZooKeeper};

conformance!(ZooKeeper);
network_conformance!(ZooKeeper);

/// No test: `common/process.rs` runs this binary once more to have a process that it can kill.
#[test]
fn job_of_another_process() {
    common::process::run_job();
}
