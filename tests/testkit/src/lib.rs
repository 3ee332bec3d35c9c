//! The common parts of programs that test distlock from outside: the test suites, the torture,
//! interop and upgrade tests, and the benchmark. It covers the stores' servers, the network to them
//! and child processes. It does not depend on distlock.

#![allow(clippy::expect_used, clippy::panic)] // a test fails by panicking

pub mod backend;
pub mod certificates;
pub mod child;
pub mod clock;
#[cfg(feature = "zookeeper")]
pub mod deletion;
pub mod disk;
pub mod docker;
pub mod event;
pub mod fleet;
pub mod framing;
pub mod history;
pub mod median;
#[cfg(feature = "operator")]
pub mod operator;
pub mod orders;
pub mod proxies;
pub mod proxy;
pub mod retry;
pub mod servers;
pub mod store;
#[cfg(feature = "telemetry")]
pub mod telemetry;

use std::error::Error;

/// The result of anything that may fail in several ways. Errors are texts.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;
