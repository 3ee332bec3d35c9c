//! The library's `runtime`, on shuttle's threads.

#[path = "../../../../src/runtime/carried.rs"]
pub(crate) mod carried;
pub(crate) mod clock;
pub(crate) mod executor;
#[path = "../../../../src/runtime/inline.rs"]
pub(crate) mod inline;
pub(crate) mod mutex;
#[path = "../../../../src/runtime/on_drop.rs"]
mod on_drop;
#[path = "../../../../src/runtime/pause.rs"]
mod pause;
#[path = "../../../simulation/src/runtime/process.rs"]
pub(crate) mod process;
pub(crate) mod random;
#[path = "../../../../src/runtime/work.rs"]
mod work;

use shuttle::thread_local;

use crate::sync::interrupt;

/// The name by which the library's sources reach it: `tokio::runtime::Handle`.
pub(crate) use tokio_itself::runtime::Handle;

pub(crate) use carried::Carried;
pub(crate) use executor::Executor;
pub(crate) use inline::Inline;
pub(crate) use mutex::Mutex;
pub(crate) use on_drop::OnDrop;
pub(crate) use pause::{Backoff, Throttle, backoff, jittered, late};
pub(crate) use work::Runtime;

pub(crate) fn poll<T>(poll: impl FnOnce() -> T) -> T {
    inline::poll(poll)
}

/// While the clock is stopped, this is a possible preemption like any other one.
pub(crate) async fn yield_now() {
    if clock::is_stopped() {
        interrupt();
    } else {
        shuttle::future::yield_now().await;
    }
}
