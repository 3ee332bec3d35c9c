//! The library's code that several threads are in at once, on threads whose interleavings are
//! explored: its sources below `queue/` are modules of this crate. What they reach the machine by
//! has stand-ins, in `runtime`, of which `inline.rs` and `carried.rs` are the library's own.
//!
//! A thread may be stopped before it takes a lock and before it gives one back. tokio's
//! `Notify` and `watch` work on atomics of the standard library, at which shuttle cannot stop a
//! thread. They are tokio's own here too, each call as one step, before which the thread may be
//! stopped: see `sync`. That is sound as far as each call takes effect at one moment, which tokio
//! has its own tests for (<https://github.com/tokio-rs/tokio/tree/master/tokio/src/sync/tests>).
//! Orderings weaker than sequential consistency are not explored.

// The unit tests of the library are elsewhere.
#![cfg(not(test))]
// What the scenarios do not need.
#![allow(dead_code, unused_imports, unreachable_pub, missing_docs)]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // it fails by panics

// The name by which the library's sources reach `sync` and `select!` below.
extern crate self as tokio;

mod backend;
#[path = "../../../src/error.rs"]
mod error;
#[path = "../../../src/lost.rs"]
mod lost;
mod runtime;
pub mod scenarios;
#[path = "../../../src/session/mod.rs"]
mod session;
#[path = "../../../src/store_kind.rs"]
mod store_kind;
mod sync;
#[path = "../../../src/telemetry/mod.rs"]
mod telemetry;

pub(crate) use tokio_itself::{join, select};
