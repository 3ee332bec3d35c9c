//! What the stores in databases have in common.

pub(crate) mod asking;
pub(crate) mod beats;
pub(crate) mod endpoints;
pub(crate) mod key;
pub(crate) mod outcome;
pub(crate) mod server_clock;
pub(crate) mod told;
