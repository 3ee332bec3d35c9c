#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod backend;
#[cfg(feature = "blocking")]
pub mod blocking;
mod builder;
mod carry;
mod claim;
mod client;
mod clock;
mod driven;
mod election;
mod error;
#[cfg(feature = "etcd")]
pub mod etcd;
mod gate;
mod guard;
mod handover;
mod life;
mod line;
mod many;
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
mod secret;
mod semaphore;
mod session;
mod signature;
mod silence;
mod tls;
mod url;
mod view;
mod warden;
mod write;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

pub use backend::memory;
pub use builder::Builder;
pub use client::Client;
pub use election::{Election, Leader, Leadership, Observe};
pub use error::{Error, Result};
pub use gate::{FencingGate, StaleToken};
pub use guard::{FencingToken, LockGuard, Lost, LostReason};
pub use many::AllGuard;
pub use mutex::Mutex;
pub use request::ReleaseRequest;
pub use rwlock::{ReadGuard, RwLock, WriteGuard};
pub use semaphore::{Permit, Semaphore};
pub use tls::Tls;
pub use view::{QueueEntry, QueueWatch};
pub use write::Write;
