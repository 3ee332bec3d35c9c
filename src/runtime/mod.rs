//! Where a client's work is done, and the seams to the machine: `clock`, `executor`, `random`, and
//! `tcp` and `boot` for the stores that need them. Nothing else of the library touches it, so that
//! a whole client can be run on a clock, an executor, a network and a randomness that somebody else
//! provides.

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

// What explores interleavings has another one.
#[cfg(feature = "_network")]
use std::thread_local;

pub(crate) use on_drop::OnDrop;
pub(crate) use pause::{Backoff, Throttle, backoff, jittered, late, yield_now};
pub(crate) use work::Runtime;
