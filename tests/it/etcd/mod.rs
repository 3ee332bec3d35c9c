//! etcd passes every case, and some of its own. Needs the servers of `docker/up`.

mod answers;
#[cfg(feature = "blocking")]
mod blocking;
mod foreign;
mod hung;
mod members;
mod proxied;
mod secured;
mod turns;
mod words;

use crate::common::{conformance, etcd::Etcd, network_conformance};

conformance!(Etcd);
network_conformance!(Etcd);
