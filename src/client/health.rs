//! How a client's session is doing.

use std::time::Duration;

/// What a client knows of its session: [`Client::health`](crate::Client::health).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// The store has confirmed the session: locks are valid for so long if nothing more is heard.
    #[non_exhaustive]
    Proved {
        /// How long.
        remaining: Duration,
    },
    /// Nothing is held, and the last proof is too old to count: the next lock asks for another.
    Unproved,
    /// No session was opened yet: [`connect_lazy`](crate::Builder::connect_lazy) leaves that to the
    /// first call that needs one.
    NotOpened,
    /// The session is over, and what was held is lost. The next lock opens another one.
    Lost,
    /// The client was closed.
    Closed,
}
