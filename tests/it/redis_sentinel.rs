//! Redis with sentinels and two confirming replicas passes every case. The tests need the servers
//! of `docker/up redis-sentinel`.

use crate::common::{conformance, network_conformance, redis::Sentinel};

conformance!(Sentinel);
network_conformance!(Sentinel);
