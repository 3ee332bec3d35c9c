//! The scenarios. Each returns only if no task waits for ever: a lost wake-up is a deadlock, which
//! the scheduler detects.

pub mod carried;
pub mod client;
pub mod deadline;
pub mod eviction;
pub mod inline;
pub mod own_keys;
pub mod session;
pub(crate) mod signal;
pub mod sql;
mod store;
pub mod telemetry;

// They use functions that are visible only in their backend.
pub use crate::backend::{
    etcd::scenarios as etcd, mysql::scenarios as mysql, postgres::scenarios as postgres,
    redis::scenarios as redis, redlock::scenarios as redlock, zookeeper::scenarios as zookeeper,
};

use shuttle::thread::JoinHandle;

use crate::runtime::{Executor, Runtime};

pub(crate) fn runtime() -> Runtime {
    Runtime::of(Executor::default())
}

pub(crate) fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().expect("the thread did not panic")
}
