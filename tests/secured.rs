//! Passwords, certificates and permissions, on the tests' own servers, which require all of them,
//! and on those of `docker/up`.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // also outside of test functions

// These tests use only a part of the shared code.
#[allow(dead_code, unused_imports, unused_macros)]
#[path = "it/common/mod.rs"]
mod common;
#[path = "secured/etcd.rs"]
mod etcd;
#[path = "secured/folder.rs"]
mod folder;
#[path = "secured/logs.rs"]
mod logs;
#[path = "secured/options.rs"]
mod options;
#[path = "secured/own_etcd.rs"]
mod own_etcd;
#[path = "secured/own_zookeeper.rs"]
mod own_zookeeper;
#[path = "secured/rights.rs"]
mod rights;
#[path = "secured/rotation.rs"]
mod rotation;
#[path = "secured/secrets.rs"]
mod secrets;
#[path = "secured/zookeeper.rs"]
mod zookeeper;

/// Not a test: `common/process.rs` runs this binary again as a process that it can kill.
#[test]
fn job_of_another_process() {
    common::process::run_job();
}
