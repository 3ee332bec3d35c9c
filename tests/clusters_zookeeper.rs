//! What becomes of locks when servers of the ensemble fail: killed, paused, cut off from each other. Needs the servers
//! of `docker/up`. A target of its own, so that they fail once and not for each set of features.

#![allow(clippy::expect_used, clippy::panic)] // also outside of the test functions

// The cases are for the other targets.
#[allow(dead_code, unused_imports, unused_macros)]
mod common;
#[path = "clusters/zookeeper.rs"]
mod zookeeper;
