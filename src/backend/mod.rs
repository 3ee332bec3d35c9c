//! The stores, and what all of them have in common.

pub(crate) mod bridge;
pub(crate) mod contract;
#[cfg(any(feature = "redis", feature = "redlock"))]
mod dialing;
#[cfg(feature = "etcd")]
pub(crate) mod etcd;
pub mod memory;
#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "redlock")]
pub(crate) mod redlock;
pub(crate) mod remote;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis", feature = "sqlite"))]
mod row_key;
mod security;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(crate) mod sql;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
#[cfg(any(feature = "postgres", feature = "redis", feature = "redlock"))]
mod tcp;
#[cfg(feature = "zookeeper")]
pub(crate) mod zookeeper;

pub(crate) use contract::{
    Ask, Backend, Detail, Entry, Event, Extras, Facts, Fate, Join, Joined, LateJoins, LeaveOutcome,
    LeaveRequest, Listing, Member, Predecessor, Present, Rewritten, SequencePoint, Standing, Store,
    ToldOfLoss, Watch, Watched, Write, durability, error, name, signature,
};
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
use security::handshake;
pub(crate) use security::{acl, credentials, secret, source, tls};
#[cfg(any(
    feature = "etcd",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "redlock",
    feature = "zookeeper"
))]
use security::{certificates, trust};
