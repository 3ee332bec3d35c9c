//! What threads do at once. Each returns only if nobody waits for ever: a wake-up that is lost is a
//! deadlock, which the scheduler finds.

pub mod carried;
pub mod inline;
mod signal;
