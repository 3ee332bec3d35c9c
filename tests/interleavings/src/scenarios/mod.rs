//! What threads do at once. Each returns only if nobody waits for ever: a wake-up that is lost is a
//! deadlock, which the scheduler finds.

pub mod carried;
pub mod deadline;
pub mod eviction;
pub mod inline;
pub mod own_keys;
mod signal;
mod store;

use shuttle::thread::JoinHandle;

fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().expect("no panic")
}
