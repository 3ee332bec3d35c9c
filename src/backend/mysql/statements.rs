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
//!
//! **A number tells where its entry is**, in `distlock_alone` or in `distlock_entries`: see
//! `places.rs`.

use super::{
    durability,
    ending::{self, ENDED},
    join::Joining,
    leave,
    literal::{bytes, text},
    message::Message,
    places::{NAME, ahead, is_alone, lowest, row_of, table_of},
    time::{BEAT, CLOCK, LEFT, NOW},
};
use crate::{
    backend::{
        Joiner, Result, StoreError, Write,
        row_key::{Parts, dir_of, parts},
        sql::{
            key::Place, outcome::Outcome, replies::nonsense, statements::Statements, step::Step,
        },
    },
    runtime::random,
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
            "UPDATE distlock_sessions SET expires = {NOW} + ttl, clock = {CLOCK}, beat = {BEAT} \
             WHERE id = {} AND NOT {ENDED}",
            self.session
        );
        Message::plain(vec![renew]).urgent()
    }

    fn close(&self) -> Message {
        Message::transaction(ending::close(self.session)).by_own_connection()
    }

    fn is_closed(outcomes: &[Outcome]) -> Result<bool> {
        let Some((left, removed)) = outcomes.split_last() else { return Err(nonsense()) };
        if !left.first().ok_or_else(nonsense)?.flag(0) {
            return Ok(true);
        }
        match removed.iter().any(|removed| removed.count > 0) {
            true => Ok(false),
            false => Err(StoreError::Unavailable("others use some of its entries".into())),
        }
    }

    fn join(&self, joiners: &[Joiner<'_>], value: &[u8], if_free: bool) -> Message {
        let steps = joiners.iter().map(|joiner| Step::join(*joiner, value, if_free));
        let steps: Vec<_> = steps.collect();
        Joining::new(self.session, random::id(), &steps, if_free).message(false)
    }

    /// Its last statement tells of the entry with this number and the two in front of it.
    fn standing(&self, own: &Place<'_>) -> Message {
        let (dir, number) = (text(own.dir), own.number);
        let alone = format!(
            "SELECT {NAME} FROM distlock_alone WHERE queue = {dir} AND number <= {number} \
             AND session IS NOT NULL"
        );
        Message::plain(vec![ahead(&dir, &number.to_string(), NAME, &alone)]).of_session()
    }

    fn present(&self, own: &Place<'_>, ahead: &Place<'_>) -> Message {
        let one = |number| {
            let (table, dir) = (table_of(number), text(own.dir));
            format!(
                "SELECT {NAME} FROM {table} WHERE queue = {dir} AND number = {number} \
                 AND session IS NOT NULL"
            )
        };
        let [own, ahead] = [own.number, ahead.number].map(one);
        Message::plain(vec![format!("{own} UNION ALL {ahead}")]).of_session()
    }

    /// All entries of the session, and the queues that they are in.
    fn own_entries(&self) -> Message {
        Message::plain(vec![own_entries(self.session)]).of_session().by_own_connection()
    }

    fn leave(&self, of: Joiner<'_>, number: Option<u64>, successor: Option<u64>) -> Message {
        leave::message(self.session, &Step::leave(of, number, successor))
    }

    /// Its last statements tell how many entries were written, and which version there is.
    fn rewrite(&self, entry: &Place<'_>, value: &[u8], version: u64) -> Message {
        let session = self.session;
        let (table, own) = (table_of(entry.number), own(session, entry));
        Message::transaction(vec![
            enter(session),
            format!(
                "UPDATE {table} SET value = {}, version = version + 1 \
                 WHERE {own} AND version = {version}",
                bytes(value)
            ),
            format!("SELECT version FROM {table} WHERE {own}"),
        ])
        .entering()
        .about([entry.dir])
    }

    /// It keeps its number. Its last statement tells how many entries there were: it changes the
    /// row in any case, as a connection of the user's pool may count nothing else.
    fn relabel(&self, entry: &Place<'_>, label: &str, value: &[u8]) -> Message {
        let session = self.session;
        Message::transaction(vec![
            enter(session),
            format!(
                "UPDATE {} SET label = {}, value = {}, checks = checks + 1 WHERE {}",
                table_of(entry.number),
                text(label),
                bytes(value),
                own(session, entry)
            ),
        ])
        .entering()
        .about([entry.dir])
    }

    /// Writes data if all guards are there; they stay there until all of it is written. Its second
    /// statement tells which of them are, by how many rows it finds. In a cluster only what is
    /// written on two servers at once is noticed, and undone on one, so the guards' entries are
    /// written to.
    ///
    /// A queue with a note is closed: see `join.rs`.
    fn commit(&self, guards: &[Place<'_>], writes: &[Write]) -> Message {
        let session = self.session;
        let (alone, entries): (Vec<_>, Vec<_>) =
            guards.iter().partition(|place| is_alone(place.number));
        let mut tables = vec![("distlock_alone", alone), ("distlock_entries", entries)];
        tables.retain(|(_, places)| !places.is_empty());
        let tables: Vec<_> = tables
            .into_iter()
            .map(|(table, places)| {
                let places: Vec<_> = places.iter().map(|place| place_of(place)).collect();
                (table, format!("session = {session} AND ({})", places.join(" OR ")))
            })
            .collect();
        let session_is_there =
            format!("FROM distlock_sessions WHERE id = {session} AND NOT {ENDED}");
        let count =
            |(table, own): &(&str, String)| format!("(SELECT COUNT(*) FROM {table} WHERE {own})");
        let held = match tables.as_slice() {
            [] => session_is_there,
            tables => {
                let counts: Vec<_> = tables.iter().map(count).collect();
                let (counts, wanted) = (counts.join(" + "), guards.len());
                format!("FROM (SELECT {counts} AS held) AS guards WHERE held = {wanted}")
            }
        };
        let mark = |(table, own): &(&str, String)| {
            format!("UPDATE {table} SET checks = checks + 1 WHERE {own}")
        };
        let mut statements = vec![enter(session)];
        if tables.len() == 1 {
            statements.extend(tables.iter().map(mark));
        } else {
            let find = |(table, own): &(&str, String)| {
                format!("(SELECT 1 FROM {table} WHERE {own} FOR UPDATE)")
            };
            let find: Vec<_> = tables.iter().map(find).collect();
            statements.push(match find.as_slice() {
                [] => format!("SELECT 1 {held}"),
                find => find.join(" UNION ALL "),
            });
            statements.extend(tables.iter().map(mark));
        }
        for write in writes {
            let (Write::Put { key, .. } | Write::Delete { key }) = write;
            let (dir, name) = at(key);
            match write {
                Write::Put { value, .. } => statements.extend([
                    format!(
                        "UPDATE distlock_alone SET epoch = 0 WHERE {} AND epoch <> 0",
                        row_of(dir_of(key))
                    ),
                    format!(
                        "REPLACE INTO distlock_data (dir, name, value) \
                         SELECT {dir}, {name}, {} {held}",
                        bytes(value)
                    ),
                ]),
                Write::Delete { .. } => statements.push(format!(
                    "DELETE FROM distlock_data WHERE dir = {dir} AND name = {name} \
                     AND EXISTS (SELECT 1 {held})"
                )),
            }
            if let (Write::Delete { .. }, Some(parts)) = (write, parts(key)) {
                statements.extend(evict(&parts));
            }
        }
        Message::transaction(statements).entering().about(guards.iter().map(|place| place.dir))
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
        let below = format!(
            "queue >= {} AND queue < {}",
            text(&format!("{namespace}/")),
            text(&format!("{namespace}0"))
        );
        let read = format!(
            "SELECT queue FROM distlock_entries WHERE {below} UNION SELECT queue \
             FROM distlock_alone WHERE {below} AND session IS NOT NULL ORDER BY queue"
        );
        Message::plain(vec![read]).of_session().sweeping()
    }
}

/// No row: the session has ended. It does not end before the transaction does.
fn enter(session: i64) -> String {
    format!(
        "SELECT id FROM distlock_sessions WHERE id = {session} AND NOT {ENDED} LOCK IN SHARE MODE"
    )
}

/// An entry of the session's own.
fn own(session: i64, entry: &Place<'_>) -> String {
    format!("{} AND session = {session}", place_of(entry))
}

fn place_of(place: &Place<'_>) -> String {
    format!("(queue = {} AND number = {})", text(place.dir), place.number)
}

pub(super) fn own_entries(session: i64) -> String {
    format!(
        "SELECT {NAME}, queue FROM distlock_entries WHERE session = {session} \
         UNION ALL SELECT {NAME}, queue FROM distlock_alone WHERE session = {session}"
    )
}

/// All that is in a queue, in its order, and the notes: one statement, so that it is of one moment.
pub(super) fn list(dir: &str, values: bool) -> String {
    let name = text(dir);
    let detail = match values {
        false => "NULL, NULL, NULL",
        true => "HEX(value), version, since DIV 1000",
    };
    let members = |table, which: &str| {
        format!(
            "SELECT {NAME}, {LEFT}, {detail}, NULL, s.expires < {NOW} FROM {table} \
             JOIN distlock_sessions AS s ON s.id = session WHERE queue = {name} {which}UNION ALL "
        )
    };
    let searched = format!("AND number >= {} ", lowest(&name));
    format!(
        "{}{}\
         SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, name, NULL FROM distlock_data \
         WHERE dir = {name} ORDER BY 1, 9",
        members("distlock_alone", ""),
        members("distlock_entries", &searched)
    )
}

/// Deletes the entry that has this key.
fn evict(Parts { dir, session, ticket, label }: &Parts<'_>) -> [String; 2] {
    let entry = format!(
        "queue = {} AND session = {session} AND ticket = {} AND label = {}",
        text(dir),
        text(ticket),
        text(label)
    );
    [
        format!("UPDATE distlock_alone SET session = NULL WHERE {entry}"),
        format!("DELETE FROM distlock_entries WHERE {entry}"),
    ]
}

pub(super) fn durability() -> Message {
    Message::plain(durability::SQL.map(str::to_owned).into()).by_own_connection()
}

/// Where data lie.
fn at(key: &str) -> (String, String) {
    let (dir, name) = key.rsplit_once('/').unwrap_or(("", key));
    (text(dir), text(name))
}

/// A row, if the guard's entry is there, which stays until the end of the transaction that asks.
/// One whose session is over by the server's clock does not do, though nobody else has the lock
/// yet. It locks no session's row: that would keep renewals waiting.
pub(super) fn held(session: i64, entry: &Place<'_>) -> String {
    format!(
        "SELECT 1 FROM {} WHERE {} AND EXISTS (SELECT 1 FROM distlock_sessions \
         WHERE id = {session} AND expires > {NOW}) LOCK IN SHARE MODE",
        table_of(entry.number),
        own(session, entry)
    )
}

/// Deletes a guard's entry in a transaction of the user's own, and changes a row if it was there:
/// nobody else was granted the lock since, or is before that transaction ends. By MariaDB's default
/// a renewal would let every older snapshot fail (1020), if this locked the session's row.
pub(super) fn unlock(session: i64, entry: &Place<'_>) -> String {
    let own = own(session, entry);
    match is_alone(entry.number) {
        true => format!("UPDATE distlock_alone SET session = NULL WHERE {own}"),
        false => format!("DELETE FROM distlock_entries WHERE {own}"),
    }
}
