#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod backend;
mod builder;
mod claim;
mod client;
mod clock;
mod election;
mod error;
mod guard;
mod handover;
mod life;
mod line;
mod mutex;
mod name;
mod place;
mod queue;
mod request;
#[cfg(not(distlock_rigged))]
mod rig;
#[cfg(distlock_rigged)]
#[doc(hidden)]
pub mod rig;
mod room;
mod runtime;
mod rwlock;
mod semaphore;
mod session;
mod tls;
mod url;
mod view;
mod warden;

pub use backend::memory;
pub use builder::Builder;
pub use client::Client;
pub use election::{Election, Leader, Leadership, Observe};
pub use error::{Error, Result};
pub use guard::{FencingToken, LockGuard, Lost, LostReason};
pub use mutex::Mutex;
pub use request::ReleaseRequest;
pub use rwlock::{ReadGuard, RwLock, WriteGuard};
pub use semaphore::{Permit, Semaphore};
pub use tls::Tls;
pub use view::{QueueEntry, QueueWatch};
