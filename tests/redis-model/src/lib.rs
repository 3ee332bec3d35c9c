//! One Redis server, as far as distlock's adapters use it: its keys, the commands, the scripts on a
//! real Lua, channels, what it reports of itself, and what a crash leaves.
//!
//! Nothing here waits or reads a clock: its caller sets the time and carries the bytes. So it
//! replies the same to the same calls.

mod commands;
mod keys;
mod lua;
mod model;
mod number;
mod reply;
mod server;
mod sorted;
mod state;

pub use model::Model;
pub use reply::{Reply, Requests};
pub use server::Front;
