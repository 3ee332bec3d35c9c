//! The primitives: mutexes, read-write locks, semaphores, elections and their guards.

pub(crate) mod closure;
pub(crate) mod election;
pub(crate) mod guard;
pub(crate) mod guarded_write;
pub(crate) mod holders;
pub(crate) mod leader;
pub(crate) mod leadership;
pub(crate) mod lock_handle;
pub(crate) mod lock_info;
pub(crate) mod max_hold;
pub(crate) mod multi_lock;
pub(crate) mod mutex;
pub(crate) mod named;
pub(crate) mod period;
pub(crate) mod queue_entry;
pub(crate) mod queue_watch;
pub(crate) mod reentrant;
pub(crate) mod release_request;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) mod sql_check;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) mod sql_release;
pub(crate) mod viewer;

#[cfg(test)]
mod tests;
