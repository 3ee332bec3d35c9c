//! What is asked of the server, as SQL: with `opening.rs`, `message.rs` and `looks.rs` all that has
//! the words of this database in it.
//!
//! **A request is one text** with all of its statements, so that it costs one round trip. What is
//! written is between `START TRANSACTION` and `COMMIT`. The server begins only when the text has
//! come whole, and goes to its end without us; what it refuses half way is rolled back at once. As
//! such a text has no parameters, values are written by `literal.rs`.
//!
//! **READ COMMITTED**: each statement sees what was committed before it began, and reads without
//! locks, also where it writes what it has read (`INSERT … SELECT`, `SET @x = (SELECT …)`). So what
//! is decided under a lock is decided by the statements after the one that takes it
//! (<https://dev.mysql.com/doc/refman/8.4/en/innodb-transaction-isolation-levels.html>).
//!
//! **Locks are taken in one order**: the queues' rows in the order of their names, the session's,
//! entries, data.

use super::{
    asked::Asked,
    durability,
    literal::{bytes, text},
    message::{BEAT, LEFT, Message, NOW, SERVER},
    opening::{QUARANTINE, quarantined},
};
use crate::backend::{
    Joiner, Write,
    row_key::{Parts, parts},
    sql::{key::Place, statements::Statements, step::Step},
};

/// What one session asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct MysqlStatements {
    pub(super) session: i64,
}

impl Statements for MysqlStatements {
    type Message = Message;

    /// Counts from when the request came: the client counts from when it was sent. A session that
    /// is still there holds what it held, whatever the clock shows.
    fn keep_alive(&self, _: &[i64]) -> Message {
        let renew = format!(
            "UPDATE distlock_sessions SET expires = {NOW} + ttl, server = {SERVER}, beat = {BEAT} \
             WHERE id = {}",
            self.session
        );
        Message::plain(vec![renew]).urgent()
    }

    fn close(&self) -> Message {
        Message::plain(vec![format!("DELETE FROM distlock_sessions WHERE id = {}", self.session)])
    }

    /// Joins all of these queues or none. `if_free`: only if nobody is in any of them; then nothing
    /// is written otherwise, but for a queue's row if somebody comes at the same moment.
    ///
    /// The queues' rows are locked in the order of their names. While nothing is granted, nobody
    /// joins with `if_free`.
    ///
    /// Its last statements are one [`joined`] for each queue and, with `if_free`, whether somebody
    /// is there and all of them are over by the clock; and whether nothing is granted, and nobody
    /// is known to be there.
    fn join(&self, turn: i64, joiners: &[Joiner<'_>], value: &[u8], if_free: bool) -> Message {
        let session = self.session;
        let steps = joiners.iter().map(|joiner| Step::join(*joiner, value, if_free));
        let mut steps: Vec<_> = steps.collect();
        steps.sort_unstable_by(|one, other| one.dir().cmp(other.dir()));
        let asked = Asked::of(steps.iter());
        let all = &asked.names;
        let quarantined = quarantined();
        let free = format!(
            "NOT EXISTS (SELECT 1 FROM distlock_entries WHERE queue IN ({all})) \
             AND NOT {quarantined}"
        );
        let only_if = if if_free { &free } else { "TRUE" };
        let mut statements = asked.lock(turn, only_if);
        // Asked again, it has joined already.
        let once = format!(
            "NOT EXISTS (SELECT 1 FROM distlock_entries AS o \
             WHERE o.session = {session} AND o.ticket = a.ticket) AND {only_if}"
        );
        statements.push(asked.insert(session, turn, &once));
        statements.extend(joiners.iter().map(|joiner| joined(session, joiner)));
        if if_free {
            // It ends at the first one who lives: queues may be long.
            statements.push(format!(
                "SELECT there AND NOT alive, {quarantined} AND NOT alive FROM (\
                 SELECT EXISTS (SELECT 1 FROM distlock_entries WHERE queue IN ({all})) AS there, \
                 EXISTS (SELECT 1 FROM distlock_entries AS e \
                 JOIN distlock_sessions AS s ON s.id = e.session WHERE queue IN ({all}) \
                 AND s.id <> {QUARANTINE} AND s.expires >= {NOW}) AS alive) AS seen"
            ));
        }
        let step = steps.pop().filter(|_| steps.is_empty());
        Message::transaction(statements).of_session().step(step)
    }

    /// Its last statement tells of the entry with this number and the two in front of it.
    fn standing(&self, own: &Place<'_>) -> Message {
        let (dir, number) = (text(own.dir), own.number);
        Message::plain(vec![format!(
            "SELECT {NAME} FROM distlock_entries WHERE queue = {dir} AND number <= {number} \
             ORDER BY number DESC LIMIT 3"
        )])
        .of_session()
    }

    fn present(&self, own: &Place<'_>, ahead: &Place<'_>) -> Message {
        Message::plain(vec![format!(
            "SELECT {NAME} FROM distlock_entries WHERE queue = {} AND number IN ({}, {})",
            text(own.dir),
            own.number,
            ahead.number
        )])
        .of_session()
    }

    /// All entries of the session, and the queues that they are in.
    fn own_entries(&self) -> Message {
        Message::plain(vec![every_own_entry(self.session)]).of_session()
    }

    /// Its last statements tell how many entries were deleted; and the queue's last number, and
    /// whether the successor's is there: if so, it was there as the entry was deleted. A
    /// transaction, as nothing was deleted then if its last statement is refused.
    fn leave(&self, of: Joiner<'_>, number: Option<u64>, successor: Option<u64>) -> Message {
        let session = self.session;
        let dir = text(of.queue.dir());
        let known = number.map_or(String::new(), |number| format!(" AND number = {number}"));
        let is_there = successor.map_or("FALSE".to_owned(), |number| {
            format!(
                "EXISTS (SELECT 1 FROM distlock_entries WHERE queue = {dir} AND number = {number} \
                 AND session = {session})"
            )
        });
        Message::transaction(vec![
            format!(
                "DELETE FROM distlock_entries WHERE session = {session} AND ticket = '{}' \
                 AND queue = {dir} AND label = {}{known}",
                of.ticket,
                text(of.queue.label())
            ),
            format!("SELECT (SELECT number FROM distlock_queues WHERE queue = {dir}), {is_there}"),
        ])
        .of_session()
        .step(Some(Step::leave(of, number, successor)))
    }

    /// Its last statements tell how many entries were written, and which version there is.
    fn rewrite(&self, entry: &Place<'_>, value: &[u8], version: u64) -> Message {
        let session = self.session;
        let (dir, number) = (text(entry.dir), entry.number);
        let own = format!("queue = {dir} AND number = {number} AND session = {session}");
        Message::transaction(vec![
            enter(session),
            format!(
                "UPDATE distlock_entries SET value = {}, version = version + 1 \
                 WHERE {own} AND version = {version}",
                bytes(value)
            ),
            format!("SELECT version FROM distlock_entries WHERE {own}"),
        ])
        .entering()
    }

    /// It keeps its number. Its last statement tells how many entries there were.
    fn relabel(&self, entry: &Place<'_>, label: &str, value: &[u8]) -> Message {
        let session = self.session;
        Message::transaction(vec![
            enter(session),
            format!(
                "UPDATE distlock_entries SET label = {}, value = {} \
                 WHERE queue = {} AND number = {} AND session = {session}",
                text(label),
                bytes(value),
                text(entry.dir),
                entry.number
            ),
        ])
        .entering()
    }

    /// Writes data if all guards are there; they stay there until all of it is written. Its second
    /// statement tells which of them are, by how many rows it finds. In a cluster only what is
    /// written on two servers at once is noticed, and undone on one, so the guards' entries are
    /// written to.
    fn commit(&self, guards: &[Place<'_>], writes: &[Write]) -> Message {
        let session = self.session;
        let place = |place: &Place<'_>| {
            format!("(queue = {} AND number = {})", text(place.dir), place.number)
        };
        let places = guards.iter().map(place).collect::<Vec<_>>().join(" OR ");
        let (held, check) = match guards {
            [] => {
                let held = format!("FROM distlock_sessions WHERE id = {session}");
                let check = format!("SELECT 1 {held}");
                (held, check)
            }
            guards => (
                format!(
                    "FROM (SELECT COUNT(*) AS held FROM distlock_entries \
                     WHERE session = {session} AND ({places})) AS guards WHERE held = {}",
                    guards.len()
                ),
                format!(
                    "UPDATE distlock_entries SET checks = checks + 1 \
                     WHERE session = {session} AND ({places})"
                ),
            ),
        };
        let mut statements = vec![enter(session), check];
        for write in writes {
            let (Write::Put { key, .. } | Write::Delete { key }) = write;
            let (dir, name) = at(key);
            statements.push(match write {
                Write::Put { value, .. } => format!(
                    "REPLACE INTO distlock_data (dir, name, value) SELECT {dir}, {name}, {} {held}",
                    bytes(value)
                ),
                Write::Delete { .. } => format!(
                    "DELETE FROM distlock_data WHERE dir = {dir} AND name = {name} \
                     AND EXISTS (SELECT 1 {held})"
                ),
            });
            if let (Write::Delete { .. }, Some(parts)) = (write, parts(key)) {
                statements.push(evict(&parts));
            }
        }
        Message::transaction(statements).entering()
    }

    fn read(&self, key: &str) -> Message {
        let (dir, name) = at(key);
        let read =
            format!("SELECT HEX(value) FROM distlock_data WHERE dir = {dir} AND name = {name}");
        Message::plain(vec![read])
    }

    /// The queues whose directories begin with the namespace and a slash.
    fn queues(&self, namespace: &str) -> Message {
        // `0` is the character after `/`.
        let read = format!(
            "SELECT DISTINCT queue FROM distlock_entries WHERE queue >= {} AND queue < {} \
             ORDER BY queue",
            text(&format!("{namespace}/")),
            text(&format!("{namespace}0"))
        );
        Message::plain(vec![read]).of_session().sweeping()
    }
}

/// The columns that make an entry's key: see `sql/key.rs`.
pub(super) const NAME: &str = "number, LOWER(HEX(session)), ticket, label";

/// No row: the session was put away. Nobody puts it away before the transaction's end.
fn enter(session: i64) -> String {
    format!("SELECT id FROM distlock_sessions WHERE id = {session} LOCK IN SHARE MODE")
}

/// Where in the reply to a request to join one queue [`joined`] is.
pub(super) const JOINED: usize = 3;

/// The own entry and the two in front of it, nearest first, with whether there is anything else in
/// the queue. No rows: it is not there.
fn joined(session: i64, joiner: &Joiner<'_>) -> String {
    let (dir, ticket) = (text(joiner.queue.dir()), joiner.ticket);
    format!(
        "SELECT {NAME}, EXISTS (SELECT 1 FROM distlock_data WHERE dir = {dir}) OR EXISTS (\
         SELECT 1 FROM distlock_entries AS o WHERE o.queue = {dir} \
         AND NOT (o.session = {session} AND o.ticket = '{ticket}')) \
         FROM distlock_entries WHERE queue = {dir} AND number <= (\
         SELECT own.number FROM distlock_entries AS own WHERE own.session = {session} \
         AND own.ticket = '{ticket}' AND own.queue = {dir}) ORDER BY number DESC LIMIT 3"
    )
}

pub(super) fn every_own_entry(session: i64) -> String {
    format!("SELECT {NAME}, queue FROM distlock_entries WHERE session = {session}")
}

/// All that is in a queue, in its order, and the notes: one statement, so that it is of one moment.
pub(super) fn list(dir: &str, values: bool) -> String {
    let name = text(dir);
    let detail = match values {
        false => "NULL, NULL, NULL",
        true => "HEX(value), version, since DIV 1000",
    };
    format!(
        "SELECT {NAME}, {LEFT}, {detail}, NULL, s.expires < {NOW} \
         FROM distlock_entries JOIN distlock_sessions AS s ON s.id = session WHERE queue = {name} \
         UNION ALL \
         SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, name, NULL FROM distlock_data \
         WHERE dir = {name} ORDER BY 1, 9"
    )
}

/// Deletes the entry that has this key.
fn evict(Parts { dir, session, ticket, label }: &Parts<'_>) -> String {
    format!(
        "DELETE FROM distlock_entries WHERE queue = {} AND session = {session} \
         AND ticket = {} AND label = {}",
        text(dir),
        text(ticket),
        text(label)
    )
}

pub(super) fn durability() -> Message {
    Message::plain(durability::SQL.map(str::to_owned).into())
}

/// Where data lie.
fn at(key: &str) -> (String, String) {
    let (dir, name) = key.rsplit_once('/').unwrap_or(("", key));
    (text(dir), text(name))
}

/// A row, if the guard's entry and session are there, which stay until the end of the transaction
/// that asks. The session comes first, as for those who put it away. One that is over by the
/// server's clock does not do, though nobody else has the lock yet.
pub(super) fn held(session: i64, entry: &Place<'_>) -> String {
    format!(
        "SELECT 1 FROM distlock_sessions AS s STRAIGHT_JOIN distlock_entries AS e \
         ON e.session = s.id WHERE s.id = {session} AND e.queue = {} AND e.number = {} \
         AND s.expires > {NOW} LOCK IN SHARE MODE",
        text(entry.dir),
        entry.number
    )
}

/// Deletes a guard's entry in a transaction of the user's own, and changes a row if it was there:
/// nobody else was granted the lock since, or is before that transaction ends. It locks no
/// session's row: that would keep renewals waiting, and by MariaDB's default a renewal would let
/// every older snapshot fail (1020).
pub(super) fn unlock(session: i64, entry: &Place<'_>) -> String {
    format!(
        "DELETE FROM distlock_entries WHERE queue = {} AND number = {} AND session = {session}",
        text(entry.dir),
        entry.number
    )
}
