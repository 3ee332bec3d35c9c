//! The scenarios. Each returns only if no task waits for ever: a lost wake-up is a deadlock, which
//! the scheduler detects.

pub mod carried;
pub mod deadline;
pub mod eviction;
pub mod inline;
pub mod own_keys;
mod signal;
mod store;

use shuttle::thread::JoinHandle;

fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().expect("the thread did not panic")
}
