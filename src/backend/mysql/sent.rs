//! The reply to a request, from any connection.

use super::message::Doubt;
use crate::backend::sql::outcome::Outcome;

pub(super) struct Sent {
    /// The outcomes of the message's own statements.
    pub(super) outcomes: Vec<Outcome>,
    /// The session was removed, if the message checks that.
    pub(super) is_gone: bool,
    /// Ended sessions have left more than one request removes.
    pub(super) leaves_more: bool,
    /// The server's refusal, and what may have been applied nevertheless.
    pub(super) refused: Option<(ServerError, Doubt)>,
}

/// A server's error.
#[derive(Debug, Default)]
pub(super) struct ServerError {
    pub(super) code: u16,
    /// The SQLSTATE.
    pub(super) state: String,
    pub(super) message: String,
}
