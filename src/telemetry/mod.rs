//! What is told to those who operate the program: metrics and traces, of this client and for its
//! process. Nothing is decided by it.
//!
//! The rest of the library tells this module what happens, in a few places, and does not know
//! whether anybody listens: the features `metrics` and `tracing` are named nowhere else. With both
//! off, everything here is of size zero and does nothing.
//!
//! Recorders and subscribers are the user's code. None of it is called while a lock of the
//! library's is held, as for wakers.

#[cfg(any(feature = "metrics", feature = "tracing"))]
mod account;
#[cfg(any(feature = "metrics", feature = "tracing"))]
mod call;
#[cfg(any(feature = "metrics", feature = "tracing"))]
mod client;
mod kind;
#[cfg(any(feature = "metrics", feature = "tracing"))]
mod meter;
#[cfg(not(any(feature = "metrics", feature = "tracing")))]
mod off;
#[cfg(any(feature = "metrics", feature = "tracing"))]
mod trace;

#[cfg(any(feature = "metrics", feature = "tracing"))]
pub(crate) use self::{
    account::{Account, Accounts, Handle, Slot},
    call::Call,
    client::{Renewals, SlowWaits, Telemetry},
};
pub(crate) use kind::{Ended, Label, Opened, Primitive};
#[cfg(all(feature = "redis", not(any(feature = "metrics", feature = "tracing"))))]
pub(crate) use off::not_exclusive;
#[cfg(not(any(feature = "metrics", feature = "tracing")))]
pub(crate) use off::{Account, Accounts, Call, Handle, Renewals, Slot, SlowWaits, Telemetry};
#[cfg(all(feature = "redis", any(feature = "metrics", feature = "tracing")))]
pub(crate) use trace::not_exclusive;
