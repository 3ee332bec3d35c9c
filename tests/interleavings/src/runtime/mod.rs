//! The library's `runtime`, on shuttle's threads.

#[path = "../../../../src/runtime/carried.rs"]
pub(crate) mod carried;
pub(crate) mod clock;
pub(crate) mod executor;
#[path = "../../../../src/runtime/inline.rs"]
mod inline;
pub(crate) mod mutex;
#[path = "../../../../src/runtime/on_drop.rs"]
mod on_drop;
#[path = "../../../../src/runtime/pause.rs"]
mod pause;
#[path = "../../../simulation/src/runtime/process.rs"]
pub(crate) mod process;
pub(crate) mod random;
mod work;

use shuttle::thread_local;

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

pub(crate) async fn yield_now() {
    shuttle::future::yield_now().await;
}
