//! The library's `backend`: the contract, the store in memory, and what the adapters share between
//! threads without a driver.

#[path = "../../../src/backend/bridge.rs"]
pub(crate) mod bridge;
#[path = "../../../src/backend/contract/mod.rs"]
pub(crate) mod contract;
pub(crate) mod etcd;
#[path = "../../../src/backend/memory/mod.rs"]
pub(crate) mod memory;
pub(crate) mod mysql;
pub(crate) mod postgres;
pub(crate) mod redis;
pub(crate) mod redlock;
#[path = "../../../src/backend/remote.rs"]
pub(crate) mod remote;
#[path = "../../../src/backend/row_key.rs"]
mod row_key;
#[path = "../../../src/backend/security/mod.rs"]
mod security;
pub(crate) mod sql;
#[path = "../../../src/backend/stage.rs"]
pub(crate) mod stage;
pub(crate) mod zookeeper;
pub(crate) mod zookeeper_lists;

pub(crate) use contract::{
    Ask, Backend, Detail, Durability, Entry, Event, Extras, Facts, FailoverBehavior, Fate, Join,
    Joined, Joiner, LeaveOutcome, LeaveRequest, Listing, LockStore, LossListener, Member, Part,
    Predecessor, Present, Queue, Result, Rewrite, Rewritten, SequencePoint, Specifics, Standing,
    Store, StoreError, Ticket, Watch, Watched, Which, Write, durability, error, name, signature,
};
pub(crate) use security::{acl, credentials, secret, source, tls};
