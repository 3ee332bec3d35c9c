//! The stores, and what all of them have in common.

pub(crate) mod acl;
pub(crate) mod bridge;
#[cfg(any(
    feature = "etcd",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "redlock",
    feature = "zookeeper"
))]
mod certificates;
pub(crate) mod credentials;
#[cfg(any(feature = "redis", feature = "redlock"))]
mod dialing;
pub(crate) mod durability;
mod entry;
pub(crate) mod error;
#[cfg(feature = "etcd")]
pub(crate) mod etcd;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
mod handshake;
mod listing;
pub mod memory;
#[cfg(feature = "mysql")]
pub(crate) mod mysql;
pub(crate) mod name;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "redlock")]
pub(crate) mod redlock;
pub(crate) mod remote;
mod request;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis", feature = "sqlite"))]
mod row_key;
pub(crate) mod secret;
pub(crate) mod signature;
pub(crate) mod source;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(crate) mod sql;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
pub(crate) mod store;
#[cfg(any(feature = "postgres", feature = "redis", feature = "redlock"))]
mod tcp;
pub(crate) mod tls;
#[cfg(any(
    feature = "etcd",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "redlock",
    feature = "zookeeper"
))]
mod trust;
#[cfg(feature = "zookeeper")]
pub(crate) mod zookeeper;

pub(crate) use entry::{
    Entry, Event, Fate, Moment, Predecessor, Present, Standing, Watch, Watched,
};
pub(crate) use listing::{Ask, Detail, Listing, Member};
pub(crate) use request::{Join, Joined, Leaving, Left, Rewritten, Write};
pub(crate) use store::{Backend, Extras, Facts, Store, ToldOfLoss};
