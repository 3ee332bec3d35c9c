//! The queue of a lock: the algorithm, one attempt, and the rules for sharing a lock.

pub(crate) mod acquire;
pub(crate) mod attempt;
pub(crate) mod deferred_release;
mod evidence;
mod failure;
pub(crate) mod feed;
mod hold;
mod lock;
pub(crate) mod mode;
pub(crate) mod outage;
mod pending_release;
mod poll;
mod predecessor_watch;
pub(crate) mod release;
pub(crate) mod snapshot;
mod time_limit;
pub(crate) mod view;
mod wait;
mod waiter;
mod wake_up_backoff;

pub(crate) use failure::{Failure, StaleSessions};
pub(crate) use hold::{Hold, hold_until};
pub(crate) use lock::{RELEASE_WAIT, acquire, hold, join};
pub(crate) use wait::Wait;
