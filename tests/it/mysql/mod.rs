//! MySQL passes every case, and some of its own. Needs the server of `docker/up`.

#[cfg(feature = "blocking")]
mod blocking;
mod clock;
mod secured;
mod settings;
mod tables;
mod tidying;
mod transactions;

use crate::common::{conformance, mysql::Mysql, network_conformance};

conformance!(Mysql);
network_conformance!(Mysql);
