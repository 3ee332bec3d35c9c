//! The library's concurrent code, on threads whose interleavings are explored: its sources below
//! `queue/` are modules of this crate. `runtime` replaces the library's interface to the machine,
//! except for `inline.rs` and `carried.rs`, which are the library's own.
//!
//! A thread may be preempted before it locks a mutex and before it unlocks one. tokio's `Notify`
//! and `watch` work on atomics of the standard library, at which shuttle cannot preempt a thread.
//! They are tokio's own here too, and each call is one step, before which the thread may be
//! preempted: see `sync`. That is sound if each call takes effect at one moment, which tokio's own
//! tests check (<https://github.com/tokio-rs/tokio/tree/master/tokio/src/sync/tests>). Orderings
//! weaker than sequential consistency are not explored.

// The library's unit tests are not part of this crate.
#![cfg(not(test))]
// The scenarios do not use all of the library.
#![allow(dead_code, unused_imports, unreachable_pub, missing_docs)]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // scenarios fail by panicking

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
