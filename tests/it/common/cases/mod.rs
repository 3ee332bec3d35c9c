//! The cases, by topic. Their common parts are in `case.rs`.

#[cfg(feature = "sqlite")]
pub(crate) mod accounts;
#[cfg(feature = "blocking")]
pub(crate) mod blocking;
pub(crate) mod cancelling;
// Only for SQL databases.
pub(crate) mod checked;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(crate) mod clocked;
pub(crate) mod closing;
pub(crate) mod closures;
pub(crate) mod costs;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) mod crowded_sessions;
pub(crate) mod election;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis", feature = "redlock"))]
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
pub(crate) mod programs;
pub(crate) mod rows;
pub(crate) mod rwlock;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
pub(crate) mod secured;
pub(crate) mod semaphore;
pub(crate) mod service;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
pub(crate) mod strangers;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) mod tables;
pub(crate) mod trying;
// Only for SQL databases.
pub(crate) mod unlock_sql;
pub(crate) mod unpolled;
pub(crate) mod versions;
pub(crate) mod view;
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) mod waiting;
