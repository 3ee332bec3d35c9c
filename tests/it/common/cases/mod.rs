//! The cases, by theme. What they have in common is in `case.rs`.

pub(crate) mod cancelling;
// Of stores that are SQL databases alone.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
#[allow(dead_code)]
pub(crate) mod checked;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
#[allow(dead_code)]
pub(crate) mod clocked;
pub(crate) mod closing;
pub(crate) mod costs;
pub(crate) mod election;
#[cfg(any(feature = "mysql", feature = "postgres"))]
#[allow(dead_code)]
pub(crate) mod encrypted;
pub(crate) mod exclusion;
pub(crate) mod guarded;
pub(crate) mod guards;
pub(crate) mod late;
pub(crate) mod limits;
pub(crate) mod losing;
pub(crate) mod many;
pub(crate) mod names;
pub(crate) mod network;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
#[allow(dead_code)]
pub(crate) mod rows;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
pub(crate) mod service;
pub(crate) mod trying;
pub(crate) mod unpolled;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
#[allow(dead_code)]
pub(crate) mod versions;
pub(crate) mod view;
#[cfg(any(feature = "postgres", feature = "redis"))]
#[allow(dead_code)]
pub(crate) mod waiting;
