//! The stores, and the code that they share.

pub(crate) mod bridge;
pub(crate) mod contract;
#[cfg(feature = "etcd")]
pub(crate) mod etcd;
pub mod memory;
#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(any(
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "redlock",
    feature = "sqlite"
))]
mod opening;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "redlock")]
pub(crate) mod redlock;
pub(crate) mod remote;
#[cfg(any(feature = "redis", feature = "redlock"))]
mod resp;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis", feature = "sqlite"))]
mod row_key;
mod security;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(crate) mod sql;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis", feature = "sqlite"))]
mod stage;
#[cfg(feature = "zookeeper")]
pub(crate) mod zookeeper;

pub(crate) use contract::{
    Ask, Backend, Detail, Durability, Entry, Event, Extras, Facts, FailoverBehavior, Fate, Join,
    Joined, Joiner, LeaveOutcome, LeaveRequest, Listing, LockStore, LossListener, Member, Part,
    Predecessor, Present, Queue, Result, Rewrite, Rewritten, SequencePoint, Specifics, Standing,
    Store, StoreError, Ticket, Watch, Watched, Which, Write, durability, error, name, signature,
};
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
use security::handshake;
#[cfg(any(feature = "postgres", feature = "redis", feature = "redlock"))]
use security::securing;
pub(crate) use security::{acl, credentials, secret, source, tls};
#[cfg(feature = "_network")]
use security::{certificates, trust};
