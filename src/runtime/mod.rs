//! Where a client's work runs, and the seams to the machine.
//!
//! The seams are `clock`, `executor`, `process` and `random`, and `tcp` and `boot` for the stores
//! that need them. Apart from the stores' adapters, the options of a client and the module
//! `blocking`, no other part of the library accesses the machine. A test can therefore run a whole
//! client on its own clock, executor, network and random numbers.

#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
pub(crate) mod boot;
pub(crate) mod carried;
pub(crate) mod clock;
pub(crate) mod executor;
#[cfg(feature = "_network")]
#[cfg_attr(
    not(any(
        feature = "etcd",
        feature = "zookeeper",
        feature = "postgres",
        feature = "mysql",
        feature = "redis"
    )),
    allow(dead_code)
)]
pub(crate) mod inline;
pub(crate) mod mutex;
mod on_drop;
mod pause;
pub(crate) mod process;
pub(crate) mod random;
#[cfg(any(feature = "postgres", feature = "redis", feature = "redlock"))]
pub(crate) mod tcp;
mod work;

// The interleaving tests use shuttle's `thread_local` instead.
#[cfg(feature = "_network")]
use std::thread_local;

pub(crate) use on_drop::OnDrop;
pub(crate) use pause::{Backoff, Throttle, backoff, jittered, late, yield_now};
pub(crate) use work::Runtime;
