//! One ZooKeeper server, as far as distlock's adapter and its tests use it: its nodes, watches and
//! sessions, the binary protocol, and the four-letter words.
//!
//! The rules are those of the server's own source, release 3.9.3: `DataTree`,
//! `PrepRequestProcessor`, `FinalRequestProcessor`, `WatchManager`, `SessionTrackerImpl` and
//! `ContainerManager`. Except for [`Front`], the model never waits or reads a clock: the caller
//! sets the time and delivers the bytes. Equal calls therefore get equal replies.

mod acl;
mod connection;
mod jute;
mod model;
mod multi;
mod prepare;
mod quota;
mod reads;
mod requests;
mod server;
mod sessions;
mod state;
mod tree;
mod watch_requests;
mod watches;
mod words;
mod writes;

#[cfg(test)]
mod tests;

pub use model::Model;
pub use server::Front;
pub use state::Output;
