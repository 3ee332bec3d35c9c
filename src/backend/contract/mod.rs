//! The requests of the algorithm to a store, and the store's replies.

pub(crate) mod durability;
mod entry;
pub(crate) mod error;
mod listing;
pub(crate) mod name;
mod request;
pub(crate) mod signature;
pub(crate) mod store;

pub(crate) use durability::{Durability, FailoverBehavior};
pub(crate) use entry::{
    Entry, Event, Fate, Predecessor, Present, SequencePoint, Standing, Watch, Watched,
};
pub(crate) use error::{Result, StoreError};
pub(crate) use listing::{Ask, Detail, Listing, Member, Part, Which};
pub(crate) use name::{Queue, Ticket};
pub(crate) use request::{
    Join, Joined, Joiner, LeaveOutcome, LeaveRequest, Rewrite, Rewritten, Write,
};
pub(crate) use store::{Backend, Extras, Facts, LockStore, LossListener, Specifics, Store};
