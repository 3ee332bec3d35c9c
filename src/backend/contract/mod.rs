//! What the algorithm asks of a store, and what a store answers.

pub(crate) mod durability;
mod entry;
pub(crate) mod error;
mod listing;
pub(crate) mod name;
mod request;
pub(crate) mod signature;
pub(crate) mod store;

pub(crate) use entry::{
    Entry, Event, Fate, Predecessor, Present, SequencePoint, Standing, Watch, Watched,
};
pub(crate) use listing::{Ask, Detail, Listing, Member};
pub(crate) use request::{Join, Joined, LeaveOutcome, LeaveRequest, Rewritten, Write};
pub(crate) use store::{Backend, Extras, Facts, LateJoins, Store, ToldOfLoss};
