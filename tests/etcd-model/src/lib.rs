//! One etcd server, as far as distlock's adapter and its tests use it: keys with their revisions,
//! transactions, leases, watches, compaction, the NOSPACE alarm and the list of members.
//!
//! [`Model`] neither waits nor reads a clock. Its caller sets the time, so equal calls get equal
//! replies. [`Front`] serves a model on a port of this machine, and on another one as a follower
//! whose disk can hang.
//!
//! Requests behave as in etcd 3.5.16, the release in Debian trixie. Left out are users, periodic
//! progress notifications, fragments, and the limits of 1000 revisions and 512 watches a round.

mod error;
mod front;
mod keys;
mod kv;
mod lease;
mod members;
mod model;
mod services;
mod txn;
mod watch;
mod write;

pub use front::{Counts, Front};
pub use model::{Model, Settings};
