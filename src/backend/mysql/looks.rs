//! The polls of waiters: one request for all due watches of a session.

use std::{sync::Arc, time::Duration};

use super::{
    literal::text,
    message::Message,
    places::{NAME, is_alone, lowest, table_of},
    statements::own_entries,
    time::LEFT,
};
use crate::backend::sql::{
    key,
    outcome::{Outcome, Row},
    replies::left,
    watched::What,
};

/// The maximum length of the queue ahead that is counted.
pub(super) const FAR: u64 = 80;

/// The number of watches that one statement reads.
const AT_ONCE: usize = 64;

/// The state of an entry or of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// The entry's key, or for a queue a text that changes with its entries.
    pub(super) is: String,
    /// How long it takes until a relevant session may expire.
    pub(super) left: Option<Duration>,
    /// The number of entries ahead of this one, or in the queue.
    pub(super) ahead: u64,
}

/// Polls all of these. `own`: also reads the session's own entries.
pub(super) fn look(session: i64, what: &[What], own: bool) -> Message {
    let some = |what: &[What]| what.iter().map(one).collect::<Vec<_>>().join(" UNION ALL ");
    let mut statements: Vec<_> = what.chunks(AT_ONCE).map(some).collect();
    if own {
        statements.push(own_entries(session));
    }
    Message::plain(statements)
}

/// Reads one entry; the last statement returns it.
pub(super) fn first(what: &What) -> Message {
    Message::plain(vec![one(what)]).of_session().by_own_connection()
}

/// Reads the state of a queue, and then its contents. A change in between is seen by the next poll.
pub(super) fn listed(what: &What, list: String) -> Message {
    Message::plain(vec![one(what), list]).of_session().by_own_connection()
}

/// Returns the statement for [`Seen`]. Its rows have the columns of an entry or of a queue: the
/// directory, the requested number, four columns, the time left, and the count. The four columns
/// are the key, or a value that shows changes.
fn one((dir, number): &What) -> String {
    let name = text(dir);
    let lowest = lowest(&name);
    if *number > 0 {
        let alone = format!(
            "(SELECT COUNT(*) FROM distlock_alone WHERE queue = {name} AND session IS NOT NULL)"
        );
        let ahead = match is_alone(*number) {
            true => "0".to_owned(),
            false => format!(
                "(SELECT COUNT(*) FROM (SELECT 1 FROM distlock_entries \
                 WHERE queue = {name} AND number < {number} AND number >= {lowest} \
                 LIMIT {FAR}) AS ahead) + {alone}"
            ),
        };
        return format!(
            "SELECT {name} AS at, {number} AS asked, {NAME}, {LEFT}, {ahead} \
             FROM {} JOIN distlock_sessions AS s ON s.id = session \
             WHERE queue = {name} AND number = {number}",
            table_of(*number)
        );
    }
    let members = |table, which: &str| {
        format!(
            "SELECT number, version, label, session FROM {table} WHERE queue = {name} AND {which}"
        )
    };
    format!(
        "SELECT {name} AS at, 0 AS asked, \
         CONCAT_WS(' ', COUNT(*), MAX(number), SUM(version), \
         BIT_XOR(CRC32(CONCAT(number, label)))), \
         (SELECT CONCAT_WS(' ', COUNT(*), BIT_XOR(CRC32(CONCAT(name, x'00', value)))) \
         FROM distlock_data WHERE dir = {name}), '', '', MIN({LEFT}), COUNT(*) \
         FROM ({} UNION ALL {}) AS e JOIN distlock_sessions AS s ON s.id = e.session",
        members("distlock_alone", "session IS NOT NULL"),
        members("distlock_entries", &format!("number >= {lowest}"))
    )
}

/// Reads which watch a row belongs to, and its state.
pub(super) fn read(row: &Row) -> Option<(What, Seen)> {
    let dir: Arc<str> = row.text(0)?.into();
    let number = u64::try_from(row.number(1)?).ok()?;
    let cells: Vec<_> = (2..6).map(|column| row.text(column).map(str::to_owned)).collect();
    let is = match number {
        0 => cells.into_iter().flatten().collect::<Vec<_>>().join("|"),
        _ => key::entry(&dir, &Row::new(cells))?.key.as_ref().to_owned(),
    };
    let seen = Seen {
        is,
        left: row.number(6).map(left),
        ahead: row.number(7).and_then(|ahead| u64::try_from(ahead).ok())?,
    };
    Some(((dir, number), seen))
}

/// Reads the results of a poll.
pub(super) fn read_all(what: usize, outcomes: &[Outcome]) -> Vec<(What, Seen)> {
    let looks = outcomes.iter().take(what.div_ceil(AT_ONCE));
    looks.flat_map(Outcome::rows).filter_map(read).collect()
}

/// Reads the keys of the session's own entries, by watch.
pub(super) fn read_own(outcome: &Outcome) -> Vec<(What, String)> {
    let one = |row: &Row| {
        let dir = row.text(4)?;
        let entry = key::entry(dir, row)?;
        Some(((dir.into(), entry.revision), entry.key.as_ref().to_owned()))
    };
    outcome.rows().iter().filter_map(one).collect()
}
