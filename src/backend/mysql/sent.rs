//! What a request came to that was answered, whatever connection it went by.

use super::message::Doubt;
use crate::backend::sql::outcome::Outcome;

pub(super) struct Sent {
    /// Of the message's own statements.
    pub(super) outcomes: Vec<Outcome>,
    /// The session was put away, if the message asks for that.
    pub(super) is_gone: bool,
    /// Ended sessions have left more than one request removes.
    pub(super) leaves_more: bool,
    /// What the server has refused, and what may have been done all the same.
    pub(super) refused: Option<(ServerError, Doubt)>,
}

/// An error in the server's words.
#[derive(Debug, Default)]
pub(super) struct ServerError {
    pub(super) code: u16,
    /// The SQLSTATE.
    pub(super) state: String,
    pub(super) message: String,
}
