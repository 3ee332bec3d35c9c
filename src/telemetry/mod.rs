//! Telemetry for operators: metrics and traces of the clients in this process.
//!
//! No decision depends on it. The rest of the library reports events to this module in a few
//! places, and does not know whether they are recorded. Only this module names the features
//! `metrics` and `tracing`. `meter.rs` and `trace.rs`, which use the crates of these names, have a
//! second version that does nothing. With both features off, holds have no record.
//!
//! Recorders and subscribers are the user's code. Like wakers, they are never called while the
//! library holds a mutex.

mod account;
mod call;
mod client;
mod kind;
mod meter;
mod trace;

#[cfg(feature = "redis")]
pub(crate) use self::trace::not_exclusive;
pub(crate) use self::{
    account::{Account, Accounts, Handle, Slot},
    call::Call,
    client::Telemetry,
    kind::{Ended, Label, Opened, Primitive},
    trace::{placed, slow_wait, wants_slow},
};

/// Whether any kind of telemetry is compiled in.
const LISTENS: bool = cfg!(any(feature = "metrics", feature = "tracing"));
