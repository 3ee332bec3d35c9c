#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod backend;
#[cfg(feature = "blocking")]
pub mod blocking;
mod client;
mod error;
#[cfg(feature = "etcd")]
pub mod etcd;
mod fencing;
mod lost;
mod primitives;
mod queue;
#[cfg(not(distlock_rigged))]
mod rig;
#[cfg(distlock_rigged)]
#[doc(hidden)]
pub mod rig;
mod runtime;
mod session;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

pub use backend::{memory, tls::Tls};
pub use client::{Builder, Client};
pub use error::{Error, Result};
pub use fencing::{FencingGate, FencingToken, StaleToken};
pub use lost::{Lost, LostReason};
pub use primitives::{
    election::{Election, Leader, Leadership, Observe},
    guard::LockGuard,
    guarded_write::Write,
    multi_lock::AllGuard,
    mutex::Mutex,
    queue_entry::{QueueEntry, QueueWatch},
    release_request::ReleaseRequest,
    rwlock::{ReadGuard, RwLock, WriteGuard},
    semaphore::{Permit, Semaphore},
};
