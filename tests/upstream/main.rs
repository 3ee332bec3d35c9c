//! Defects of the client crates that distlock works around: each is reproduced with the crate
//! alone, so that a fixed release is noticed. Needs the servers of `docker/up`. README.md lists
//! them.

#![allow(clippy::expect_used, clippy::panic)] // a test fails by panicking

mod etcd;
mod zookeeper;

/// Fails once a defect is fixed. `workaround` names distlock's workaround.
#[track_caller]
fn assert_defect(seen: bool, workaround: &str) {
    assert!(seen, "fixed in this version: remove the workaround in {workaround}, and this test");
}
