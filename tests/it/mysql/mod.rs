//! MySQL passes every case, and some of its own. The tests need the server of `docker/up`.

mod batches;
mod clock;
mod closing;
mod migration;
mod pool;
mod secured;
mod settings;
mod snapshots;
mod tables;
mod tidying;
mod transactions;

use crate::common::{conformance, mysql::Mysql, network_conformance};

#[cfg(feature = "blocking")]
crate::common::blocking!(Mysql);
conformance!(Mysql);
network_conformance!(Mysql);
