//! The library's `runtime/`, on the simulated machine.

#[cfg(feature = "redis")]
pub(crate) mod boot;
#[path = "../../../../src/runtime/carried.rs"]
pub(crate) mod carried;
pub(crate) mod clock;
pub(crate) mod executor;
#[cfg(feature = "redis")]
pub(crate) mod inline;
pub(crate) mod mutex;
#[path = "../../../../src/runtime/on_drop.rs"]
mod on_drop;
#[path = "../../../../src/runtime/pause.rs"]
mod pause;
pub(crate) mod process;
pub(crate) mod random;
#[cfg(feature = "redis")]
pub(crate) mod tcp;
#[rustfmt::skip]
#[path = "../../../../src/runtime/work.rs"]
mod work;

pub(crate) use on_drop::OnDrop;
pub(crate) use pause::{Backoff, Throttle, backoff, jittered, late, yield_now};
pub(crate) use work::Runtime;
