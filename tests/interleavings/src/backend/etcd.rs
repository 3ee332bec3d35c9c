//! etcd's parts that need no driver.

#[path = "../../../../src/backend/etcd/cached_watch.rs"]
pub(crate) mod cached_watch;
#[path = "../../../../src/backend/etcd/contention.rs"]
pub(crate) mod contention;
#[path = "../scenarios/etcd.rs"]
pub mod scenarios;
