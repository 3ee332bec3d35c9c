//! The model of a ZooKeeper server passes every case, without a server.

use crate::common::{conformance, network_conformance, zookeeper::Model};

#[cfg(feature = "blocking")]
crate::common::blocking!(Model);
conformance!(Model);
network_conformance!(Model);
