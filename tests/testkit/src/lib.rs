//! What those have in common who try distlock from outside: the test suites, the torture, interop,
//! upgrade and the benchmark. It knows the stores' servers and the network to them, and starts
//! processes; it does not know distlock.

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

/// The result of what may fail in several ways, and is told in words.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;
