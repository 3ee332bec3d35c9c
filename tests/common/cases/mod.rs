//! The cases, by theme. What they have in common is in `case.rs`.

pub(crate) mod cancelling;
pub(crate) mod closing;
pub(crate) mod costs;
pub(crate) mod election;
pub(crate) mod exclusion;
pub(crate) mod guarded;
pub(crate) mod guards;
pub(crate) mod handover;
pub(crate) mod late;
pub(crate) mod losing;
pub(crate) mod many;
pub(crate) mod names;
pub(crate) mod network;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
pub(crate) mod service;
pub(crate) mod trying;
pub(crate) mod unpolled;
pub(crate) mod view;
