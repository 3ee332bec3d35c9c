//! One Redis server, as far as distlock's adapters use it: its keys, the commands, the scripts on a
//! real Lua, channels, `INFO`, and the data left by a crash.
//!
//! The model never waits or reads a clock: its caller sets the time and delivers the bytes. Equal
//! calls therefore get equal replies.

mod commands;
mod keys;
mod lua;
mod model;
mod monitor;
mod number;
mod reply;
mod server;
mod sorted;
mod state;

pub use model::Model;
pub use reply::{Reply, Requests};
pub use server::Front;
