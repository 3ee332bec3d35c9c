//! The queue of a lock: the algorithm, one attempt to hold, who may be in together, and hand-over
//! within a client.

pub(crate) mod acquire;
pub(crate) mod attempt;
mod evidence;
mod failure;
pub(crate) mod handover;
mod lock;
pub(crate) mod mode;
mod news;
mod pace;
pub(crate) mod view;
mod wait;

pub(crate) use failure::{Failure, STALE_SESSIONS};
pub(crate) use lock::{COURTESY, Hold, hold, join};
pub(crate) use wait::Wait;
