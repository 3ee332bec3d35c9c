//! ZooKeeper passes every case, and some of its own. The tests need the servers of `docker/up`.

mod alike;
pub(crate) mod crowds;
pub(crate) mod directories;
pub(crate) mod foreign;
mod forger;
pub(crate) mod handoffs;
mod hasty;
pub(crate) mod late;
pub(crate) mod marks;
mod members;
mod own;
mod pauses;
pub(crate) mod persistent;
pub(crate) mod quota;
pub(crate) mod rights;
mod secured;
pub(crate) mod sessions;
mod strangers;
pub(crate) mod worn;

use crate::common::{conformance, network_conformance, zookeeper::ZooKeeper};

#[cfg(feature = "blocking")]
crate::common::blocking!(ZooKeeper);
conformance!(ZooKeeper);
network_conformance!(ZooKeeper);
