//! A cluster of Redis passes every case. The tests need the servers of `docker/up redis-cluster`.

use crate::common::{conformance, network_conformance, redis::Cluster};

conformance!(Cluster);
network_conformance!(Cluster);
