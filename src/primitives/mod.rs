//! What users lock with.

pub(crate) mod election;
pub(crate) mod guard;
pub(crate) mod guarded_write;
pub(crate) mod multi_lock;
pub(crate) mod mutex;
pub(crate) mod queue_entry;
pub(crate) mod release_request;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
