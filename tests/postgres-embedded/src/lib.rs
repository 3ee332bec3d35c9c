//! PostgreSQL in the process of the tests, without a server.
//!
//! [`pglite_oxide`] runs PostgreSQL 17 itself, compiled to WebAssembly: its planner, its functions
//! and triggers, its log and its recovery. It has one session. A [`Front`] lets many connections
//! share that session: **a transaction at a time**, each with the settings, prepared statements and
//! channels of its own connection. Requests of other connections wait for the end of a transaction,
//! as they would wait for a lock on everything.
//!
//! What this cannot show is therefore what two open transactions do to each other. The tests of
//! `tests/it/postgres/` on a real server show that.

mod client;
mod database;
mod frames;
mod front;
mod limits;
mod server;
mod session;
mod text;

pub use front::Front;
pub use server::{End, Server};
