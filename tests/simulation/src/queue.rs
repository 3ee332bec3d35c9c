//! The library's `queue/`, with one addition: its conclusions are counted.

#[rustfmt::skip]
#[path = "../../../src/queue/acquire.rs"]
pub(crate) mod acquire;
#[rustfmt::skip]
#[path = "../../../src/queue/attempt.rs"]
pub(crate) mod attempt;
#[rustfmt::skip]
#[path = "../../../src/queue/deferred_release.rs"]
pub(crate) mod deferred_release;
#[path = "evidence.rs"]
mod evidence;
#[rustfmt::skip]
#[path = "../../../src/queue/failure.rs"]
mod failure;
#[rustfmt::skip]
#[path = "../../../src/queue/feed.rs"]
pub(crate) mod feed;
#[rustfmt::skip]
#[path = "../../../src/queue/hold.rs"]
mod hold;
#[rustfmt::skip]
#[path = "../../../src/queue/lock.rs"]
mod lock;
#[rustfmt::skip]
#[path = "../../../src/queue/mode.rs"]
pub(crate) mod mode;
#[path = "../../../src/queue/outage.rs"]
pub(crate) mod outage;
#[rustfmt::skip]
#[path = "../../../src/queue/pending_release.rs"]
mod pending_release;
#[rustfmt::skip]
#[path = "../../../src/queue/predecessor_watch.rs"]
mod predecessor_watch;
#[rustfmt::skip]
#[path = "../../../src/queue/wake_up_backoff.rs"]
mod wake_up_backoff;
#[rustfmt::skip]
#[path = "../../../src/queue/poll.rs"]
mod poll;
#[rustfmt::skip]
#[path = "../../../src/queue/release.rs"]
pub(crate) mod release;
#[rustfmt::skip]
#[path = "../../../src/queue/snapshot.rs"]
pub(crate) mod snapshot;
#[rustfmt::skip]
#[path = "../../../src/queue/time_limit.rs"]
mod time_limit;
#[rustfmt::skip]
#[path = "../../../src/queue/view.rs"]
pub(crate) mod view;
#[rustfmt::skip]
#[path = "../../../src/queue/wait.rs"]
mod wait;
#[rustfmt::skip]
#[path = "../../../src/queue/waiter.rs"]
mod waiter;

pub(crate) use failure::{Failure, StaleSessions};
pub(crate) use hold::{Hold, hold_until};
pub(crate) use lock::{RELEASE_WAIT, acquire, hold, join};
pub(crate) use wait::Wait;
