//! What is told to those who operate the program: metrics and traces, of this client and for its
//! process. Nothing is decided by it.
//!
//! The rest of the library tells this module what happens, in a few places, and does not know
//! whether anybody listens: the features `metrics` and `tracing` are named nowhere else. What
//! names their crates, `meter.rs` and `trace.rs`, has a second version that does nothing; with both
//! off, no hold has an account.
//!
//! Recorders and subscribers are the user's code. None of it is called while a lock of the
//! library's is held, as for wakers.

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

/// Somebody may listen.
const LISTENS: bool = cfg!(any(feature = "metrics", feature = "tracing"));
