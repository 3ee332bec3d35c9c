//! The library's `runtime`, on shuttle's threads.

#[path = "../../../../src/runtime/carried.rs"]
mod carried;
mod executor;
#[path = "../../../../src/runtime/inline.rs"]
mod inline;
mod mutex;
mod process;
mod work;

use shuttle::thread_local;

pub(crate) use carried::Carried;
pub(crate) use executor::Executor;
pub(crate) use inline::Inline;
pub(crate) use mutex::Mutex;
pub(crate) use work::Runtime;

pub(crate) fn poll<T>(poll: impl FnOnce() -> T) -> T {
    inline::poll(poll)
}

pub(crate) async fn yield_now() {
    shuttle::future::yield_now().await;
}
