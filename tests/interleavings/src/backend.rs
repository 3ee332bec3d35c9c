//! The library's `backend`, without a store.

#[path = "../../../src/backend/contract/mod.rs"]
pub(crate) mod contract;

pub(crate) use contract::{
    Ask, Backend, Durability, Entry, Event, Extras, Facts, Fate, Join, Joined, Joiner,
    LeaveOutcome, LeaveRequest, Listing, LockStore, LossListener, Predecessor, Present, Queue,
    Result, Rewrite, Rewritten, SequencePoint, Specifics, Standing, Store, StoreError, Ticket,
    Watch, Watched, Write, error, name,
};
