//! SQLite passes every case, and some of its own. The tests need no server.

mod files;
mod power_loss;
mod processes;
#[cfg(feature = "traced")]
mod strace;
#[cfg(feature = "traced")]
mod traced;
mod transactions;

use crate::common::{conformance, sqlite::Sqlite};

#[cfg(feature = "blocking")]
crate::common::blocking!(Sqlite);
conformance!(Sqlite);
