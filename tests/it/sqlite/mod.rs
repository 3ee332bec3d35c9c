//! SQLite passes every case, and some of its own. Needs no server.

#[cfg(feature = "blocking")]
mod blocking;
mod files;
mod processes;
mod transactions;

use crate::common::{conformance, sqlite::Sqlite};

conformance!(Sqlite);
