//! ZooKeeper passes every case, and some of its own. Needs the servers of `docker/up`.

mod crowds;
mod directories;
mod foreign;
mod forger;
mod handoffs;
mod hasty;
mod late;
mod marks;
mod members;
mod own;
mod pauses;
mod persistent;
mod quota;
mod rights;
mod secured;
mod sessions;
mod strangers;
mod worn;

use crate::common::{conformance, network_conformance, zookeeper::ZooKeeper};

#[cfg(feature = "blocking")]
crate::common::blocking!(ZooKeeper);
conformance!(ZooKeeper);
network_conformance!(ZooKeeper);
