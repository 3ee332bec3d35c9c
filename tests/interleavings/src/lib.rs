//! The library's concurrent code, on threads whose interleavings are explored: its sources are
//! modules of this crate, except for the adapters' code that needs a driver or a server. `runtime`
//! replaces the library's interface to the machine, except for `work.rs`, `inline.rs` and
//! `carried.rs`, which are the library's own.
//!
//! A thread may be preempted before it locks a mutex and before it unlocks one, and before each
//! operation on an atomic. tokio's channels work on atomics of the standard library, at which
//! shuttle cannot preempt a thread. They are tokio's own here too, and each call is one step. The
//! thread may be preempted before a call to a sender or to `Notify`, but not before a call to a
//! receiver: see `sync`. That is sound if each call takes effect at one moment, which tokio's own
//! tests check (<https://github.com/tokio-rs/tokio/tree/master/tokio/src/sync/tests>). Orderings
//! weaker than sequential consistency are not explored.

// The library's unit tests are not part of this crate, and neither are the examples in its docs:
// `cargo test --doc` ignores `doctest = false`.
#![cfg(not(any(test, doctest)))]
// The scenarios do not use all of the library.
#![allow(dead_code, unused_imports, unreachable_pub, missing_docs)]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // scenarios fail by panicking

// The names by which the library's sources reach `sync` and `select!` below, and the scheduler's
// atomics.
extern crate distlock_interleavings_std as std;
extern crate self as tokio;

mod backend;
#[path = "../../../src/client/mod.rs"]
mod client;
#[path = "../../../src/error.rs"]
mod error;
#[path = "../../../src/fencing.rs"]
mod fencing;
#[path = "../../../src/lost.rs"]
mod lost;
#[path = "../../../src/primitives/mod.rs"]
mod primitives;
#[path = "../../../src/queue/mod.rs"]
mod queue;
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
