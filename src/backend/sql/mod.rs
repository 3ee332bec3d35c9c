//! What the stores in databases have in common.

pub(crate) mod asking;
pub(crate) mod beats;
pub(crate) mod dialect;
pub(crate) mod endpoints;
mod extras;
pub(crate) mod key;
pub(crate) mod outcome;
pub(crate) mod released;
pub(crate) mod server_clock;
pub(crate) mod store;
pub(crate) mod told;
