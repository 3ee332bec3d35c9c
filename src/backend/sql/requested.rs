//! A request to a server that serves several at once, and its result.

use std::time::Duration;

use super::{
    connection_handle::Order,
    outcome::{Outcome, Row},
    replies::left,
};

pub(crate) enum Requested<M> {
    Order(Order<M>),
    /// Reads how long these sessions have left.
    Expiries(Vec<i64>),
    /// Checks that the server replies.
    Ping,
}

/// The result of one request.
pub(crate) enum Done {
    Answered,
    /// The server does not reply, or has become read-only.
    Useless,
    /// How long the requested sessions have left.
    Expiries(Vec<(i64, Duration)>),
}

impl Done {
    /// Reads a reply whose first outcome has a row for each session, with the milliseconds that it
    /// has left. `read` returns the session of a row.
    pub(crate) fn expiries(outcomes: &[Outcome], read: fn(&Row) -> Option<i64>) -> Self {
        let rows = outcomes.first().map(Outcome::rows).unwrap_or_default();
        let expiry = |row| Some((read(row)?, left(row.number(1)?)));
        Self::Expiries(rows.iter().filter_map(expiry).collect())
    }
}
