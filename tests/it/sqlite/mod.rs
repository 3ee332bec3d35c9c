//! SQLite passes every case, and some of its own. Needs no server.

mod files;
mod processes;
mod transactions;

use crate::common::{conformance, sqlite::Sqlite};

#[cfg(feature = "blocking")]
crate::common::blocking!(Sqlite);
conformance!(Sqlite);
