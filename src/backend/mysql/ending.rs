//! Ends expired sessions, and removes their rows in batches, so that no request takes long. The
//! entries are removed before their session.
//!
//! No sweep waits for another transaction. A session that is locked by its own request is left to
//! the next sweep. An entry that a user's transaction has checked stays until that transaction
//! ends, and so does the session's row.

use super::{
    literal::text,
    places::table_of,
    time::{BEAT, CLOCK, NOW},
};
use crate::backend::sql::{
    clock_readings::is_over, outcome::Outcome, server_clock::ClockTrust, watched::What,
};

/// The number of sessions that one request ends.
const SESSIONS: u32 = 100;

/// The number of sessions that one statement finds for the statements after it. Their ids fit into
/// the 1,024 bytes to which MySQL limits `GROUP_CONCAT`.
const EMPTY: u32 = 50;

/// The number of rows of each table that one request removes.
pub(super) const ROWS: u64 = 1_000;

/// The session that precedes all joiners while nothing is granted.
pub(super) const QUARANTINE: i64 = 0;

/// The mark of an ended session, until its entries are removed.
pub(super) const ENDED: &str = "expires = 0";

/// Returns the condition that a session has not ended.
pub(super) fn is_there(session: i64) -> String {
    format!("EXISTS (SELECT 1 FROM distlock_sessions WHERE id = {session} AND NOT {ENDED})")
}

/// Ends a session that makes no further request.
pub(super) fn close(session: i64) -> Vec<String> {
    let mut statements = vec![format!("UPDATE distlock_sessions SET {ENDED} WHERE id = {session}")];
    statements.extend(remove(&format!("s.id = {session}")));
    // Rows that other transactions have locked were skipped.
    let left = format!("SELECT COUNT(*) FROM distlock_sessions WHERE id = {session}");
    statements.push(left);
    statements
}

/// Returns `true` if a request to [`close`] has removed rows. `outcomes` does not include the last
/// one. The first statement counts the session's row each time, and the fourth one removes nothing.
pub(super) fn has_removed(outcomes: &[Outcome]) -> bool {
    let count = |at: usize| outcomes.get(at).map_or(0, |outcome| outcome.count);
    [1, 2, 4].into_iter().any(|at| count(at) > 0)
}

/// Returns the statements of a sweep before a request. `first`: the entries to remove first if
/// their sessions have ended.
pub(super) fn sweep(
    session: i64,
    clock_trust: &ClockTrust,
    clocks: bool,
    first: &[What],
) -> Vec<String> {
    let mut statements = Vec::new();
    if clock_trust.clips {
        statements.push(clip(clocks));
    }
    if clocks {
        statements.push(adopt(session));
    }
    statements.push(end(session, clock_trust, clocks));
    statements.extend(remove_first(first));
    statements.extend(remove("TRUE"));
    statements
}

/// Removes those of these entries whose sessions have ended. It locks no session, so it also covers
/// a session whose entries another client is removing. The quarantine is excluded, because it may
/// begin again. A `SELECT` finds the ended sessions: see [`remove`].
fn remove_first(first: &[What]) -> Vec<String> {
    let chosen = |table: &str| {
        let places = first.iter().filter(|(_, number)| *number > 0 && table_of(*number) == table);
        let places: Vec<_> = places
            .map(|(dir, number)| format!("(o.queue = {} AND o.number = {number})", text(dir)))
            .collect();
        let places = (!places.is_empty()).then(|| places.join(" OR "))?;
        Some(format!("FROM {table} AS o WHERE ({places})"))
    };
    let [entries, alone] = [chosen("distlock_entries"), chosen("distlock_alone")];
    let sessions = [&entries, &alone].into_iter().flatten();
    let sessions: Vec<_> = sessions.map(|chosen| format!("SELECT o.session {chosen}")).collect();
    if sessions.is_empty() {
        return Vec::new();
    }
    let ended = format!(
        "SELECT GROUP_CONCAT(id) INTO @distlock_ended FROM (SELECT DISTINCT s.id FROM ({}) AS own \
         STRAIGHT_JOIN distlock_sessions AS s ON s.id = own.session \
         WHERE s.{ENDED} AND s.id <> {QUARANTINE} LIMIT {EMPTY}) AS ended",
        sessions.join(" UNION ")
    );
    let rows = |chosen: &str| {
        format!(
            "SELECT o.queue, o.number {chosen} AND FIND_IN_SET(o.session, @distlock_ended) \
             LIMIT {ROWS} FOR UPDATE SKIP LOCKED"
        )
    };
    let deleted = entries.as_deref().map(|chosen| delete(&rows(chosen)));
    let emptied = alone.as_deref().map(|chosen| empty(&rows(chosen)));
    std::iter::once(ended).chain(deleted).chain(emptied).collect()
}

/// Deletes these rows, which are locked.
fn delete(chosen: &str) -> String {
    format!(
        "DELETE e FROM ({chosen}) AS dead STRAIGHT_JOIN distlock_entries AS e \
         ON e.queue = dead.queue AND e.number = dead.number"
    )
}

/// Clears the entries of these rows, which are locked.
fn empty(chosen: &str) -> String {
    format!(
        "UPDATE ({chosen}) AS dead STRAIGHT_JOIN distlock_alone AS a ON a.queue = dead.queue \
         SET a.session = NULL"
    )
}

/// The number of the last statements of [`sweep`], whose counts show whether there are more entries
/// to remove.
pub(super) const REMOVALS: usize = 4;

/// Removes the entries of ended sessions, and the ended sessions without entries.
///
/// A `SELECT` finds the sessions without entries, because it reads without locks. A `DELETE` would
/// wait for each transaction that has deleted an entry, such as a user's release. To the `SELECT`,
/// the entry exists until that transaction commits.
fn remove(which: &str) -> [String; REMOVALS] {
    // In this order, sessions are found by `expires`, and entries by `session`.
    let rows = |table| {
        format!(
            "SELECT o.queue, o.number FROM distlock_sessions AS s \
             STRAIGHT_JOIN {table} AS o ON o.session = s.id WHERE s.{ENDED} AND {which} \
             LIMIT {ROWS} FOR UPDATE SKIP LOCKED"
        )
    };
    [
        delete(&rows("distlock_entries")),
        empty(&rows("distlock_alone")),
        format!(
            "SELECT GROUP_CONCAT(id) INTO @distlock_empty FROM \
             (SELECT id FROM distlock_sessions AS s WHERE {ENDED} AND {which} \
             AND NOT EXISTS (SELECT 1 FROM distlock_entries WHERE session = s.id) \
             AND NOT EXISTS (SELECT 1 FROM distlock_alone WHERE session = s.id) \
             LIMIT {EMPTY}) AS dead"
        ),
        format!(
            "DELETE s FROM (SELECT id FROM distlock_sessions AS s WHERE {ENDED} AND {which} \
             AND FIND_IN_SET(id, @distlock_empty) LIMIT {EMPTY} FOR UPDATE SKIP LOCKED) AS dead \
             STRAIGHT_JOIN distlock_sessions AS s ON s.id = dead.id"
        ),
    ]
}

/// Limits a statement to the rows that this server has last written, if there are several clocks.
fn own(clocks: bool) -> String {
    if clocks { format!("AND clock = {CLOCK} ") } else { String::new() }
}

/// Shortens sessions that expire later than one TTL from now, which means that the clock was set
/// back. A subquery with a limit is not merged into the statement around it, which could not read
/// what it writes.
fn clip(clocks: bool) -> String {
    let own = own(clocks);
    format!(
        "UPDATE (SELECT id FROM distlock_sessions WHERE expires > {NOW} + ttl {own}\
         LIMIT 1000000 FOR UPDATE SKIP LOCKED) AS late \
         STRAIGHT_JOIN distlock_sessions AS s ON s.id = late.id \
         SET s.expires = {NOW} + s.ttl"
    )
}

/// Ends expired sessions.
///
/// A holder gives up 0.9 TTL after it has sent a keepalive. Its session ends 1.1 TTL after the
/// server has counted the keepalive, by a clock that was not set since then, or for as long. The
/// difference of 0.2 TTL covers 0.15 TTL for this request's way and 0.02 TTL for two clocks that
/// differ. The row must also not have been written while the clock was wrong.
fn end(session: i64, clock_trust: &ClockTrust, clocks: bool) -> String {
    let own = own(clocks);
    format!(
        "UPDATE (SELECT id FROM distlock_sessions \
         WHERE expires < {NOW} AND expires < {NOW} - ttl DIV 10 AND id <> {session} \
         AND NOT {ENDED} \
         AND {NOW} - {since} > ttl + ttl DIV 10 AND {NOW} - {shows} < ttl * 3 DIV 20 \
         AND {over} {own}LIMIT {SESSIONS} FOR UPDATE SKIP LOCKED) AS dead \
         STRAIGHT_JOIN distlock_sessions AS s ON s.id = dead.id SET s.{ENDED}",
        since = clock_trust.since,
        shows = clock_trust.shows,
        over = is_over(
            &clock_trust.marks,
            BEAT,
            "expires - ttl * 19 DIV 20",
            "<=",
            |shows| shows.to_string(),
            |lasts| lasts.to_string()
        )
    )
}

/// Takes over rows that another server's clock has written, which this server's clock cannot judge.
/// Sessions that seem expired by it, or that live for too long, get a full TTL by it unless the
/// other server renews them.
fn adopt(session: i64) -> String {
    format!(
        "UPDATE (SELECT id FROM distlock_sessions \
         WHERE (expires < {NOW} - ttl DIV 10 OR expires > {NOW} + ttl + ttl DIV 10) \
         AND NOT {ENDED} AND clock <> {CLOCK} AND id <> {session} \
         LIMIT {SESSIONS} FOR UPDATE SKIP LOCKED) AS theirs \
         STRAIGHT_JOIN distlock_sessions AS s ON s.id = theirs.id \
         SET s.expires = {NOW} + s.ttl, s.clock = {CLOCK}, s.beat = {BEAT}"
    )
}

/// Returns the condition that the store grants nothing.
pub(super) fn quarantined() -> String {
    is_there(QUARANTINE)
}
