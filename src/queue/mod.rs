//! The queue of a lock: the algorithm, one attempt to hold, who may be in together, and hand-over
//! within a client.

pub(crate) mod acquire;
pub(crate) mod attempt;
mod evidence;
mod failure;
pub(crate) mod handover;
mod hold;
mod lock;
pub(crate) mod mode;
mod news;
mod pace;
mod poll;
pub(crate) mod release;
mod slow;
pub(crate) mod view;
mod wait;
mod waiter;

pub(crate) use failure::{Failure, StaleSessions};
pub(crate) use hold::Hold;
pub(crate) use lock::{COURTESY, hold, join};
pub(crate) use wait::{Wait, unless_drained};
