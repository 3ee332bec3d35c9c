//! Redis with sentinels, and with two replicas that are waited for, passes every case. Needs the
//! servers of `docker/up redis-sentinel`.

use crate::common::{conformance, network_conformance, redis::Sentinel};

conformance!(Sentinel);
network_conformance!(Sentinel);
