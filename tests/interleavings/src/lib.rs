//! The library's tasks that run on the thread of their waker, and the futures that a caller drives,
//! on threads whose interleavings are explored: `src/runtime/{inline,carried}.rs` are modules of
//! this crate. `mutex`, `executor`, `process` and `work`, by which they reach the machine, are
//! others here.

// The unit tests of the library are elsewhere.
#![cfg(not(test))]
// What the scenarios do not need.
#![allow(dead_code, unused_imports, unreachable_pub, missing_docs)]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // it fails by panics

mod runtime;
pub mod scenarios;
