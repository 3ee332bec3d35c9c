//! What is asked of a server that serves several requests at once, and what comes of one.

use std::time::Duration;

use super::{
    connection_handle::Order,
    outcome::{Outcome, Row},
    replies::left,
};

pub(crate) enum Requested<M> {
    Order(Order<M>),
    /// How long these sessions have to live.
    Expiries(Vec<i64>),
    /// Whether it answers at all.
    Ping,
}

/// What came of one request to the server.
pub(crate) enum Done {
    Answered,
    /// The server has fallen silent, or has become one that cannot be written to.
    Useless,
    /// How long the sessions have to live that were asked after.
    Expiries(Vec<(i64, Duration)>),
}

impl Done {
    /// What an answer tells whose first outcome has a row for each session, which is `read`, with
    /// how many milliseconds it has left.
    pub(crate) fn expiries(outcomes: &[Outcome], read: fn(&Row) -> Option<i64>) -> Self {
        let rows = outcomes.first().map(Outcome::rows).unwrap_or_default();
        let expiry = |row| Some((read(row)?, left(row.number(1)?)));
        Self::Expiries(rows.iter().filter_map(expiry).collect())
    }
}
