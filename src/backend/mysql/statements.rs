//! Most requests to the server, as SQL. Modules such as `opening.rs`, `join.rs`, `leave.rs`,
//! `ending.rs` and `looks.rs` contain the rest.
//!
//! **A request is one text** with all of its statements, so it costs one round trip. Writes are
//! between `START TRANSACTION` and `COMMIT`. The server begins only when it has received the whole
//! text, and continues to its end without the client. If it refuses a statement, the client rolls
//! back at once. Such a text has no parameters, so `literal.rs` writes the values.
//!
//! **READ COMMITTED**: each statement sees what was committed before it began. The subqueries of a
//! `SELECT`, an `INSERT … SELECT` and an `UPDATE` of one table read without locks. The statements
//! that decide under a lock therefore follow the statement that takes it
//! (<https://dev.mysql.com/doc/refman/8.4/en/innodb-transaction-isolation-levels.html>). Subqueries
//! of a `DELETE`, an `UPDATE` of several tables and a `SET` lock what they read
//! (`ha_innobase::store_lock`).
//!
//! **No request waits for a user's transaction** that has checked or released a held lock. The
//! request either skips the locked row, or fails and is repeated ([`lock`]).
//!
//! **Locks are taken in one order**: the queues' rows in the order of their names, the session's
//! row, entries, data.
//!
//! **An entry's number shows its table**, `distlock_alone` or `distlock_entries`: see `places.rs`.

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

/// The requests of one session.
#[derive(Clone, Copy, Debug)]
pub(super) struct MysqlStatements {
    pub(super) session: i64,
}

impl Statements for MysqlStatements {
    type Message = Message;

    /// The TTL starts when the server processes the request, while the client counts from the time
    /// of sending. A session that is still present keeps its locks, whatever the clock shows.
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
        match ending::has_removed(removed) {
            true => Ok(false),
            false => Err(StoreError::Unavailable(
                "other transactions have locked some of the session's entries".into(),
            )),
        }
    }

    fn join(&self, joiners: &[Joiner<'_>], value: &[u8], if_free: bool) -> Message {
        let steps = joiners.iter().map(|joiner| Step::join(*joiner, value, if_free));
        let steps: Vec<_> = steps.collect();
        Joining::new(self.session, random::id(), &steps, if_free).message(false)
    }

    /// The last statement returns the entry with this number and the two ahead of it.
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

    /// Lists the session's entries and their queues.
    fn own_entries(&self) -> Message {
        Message::plain(vec![own_entries(self.session)]).of_session().by_own_connection()
    }

    fn leave(&self, of: Joiner<'_>, number: Option<u64>, successor: Option<u64>) -> Message {
        leave::message(self.session, &Step::leave(of, number, successor))
    }

    /// The last statements return the number of entries written, and the version.
    fn rewrite(&self, entry: &Place<'_>, value: &[u8], version: u64) -> Message {
        let session = self.session;
        let (table, own) = (table_of(entry.number), own(session, entry));
        Message::transaction(vec![
            enter(session),
            lock(table, &own),
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

    /// The entry keeps its number. The last statement counts the entries. The update always changes
    /// the row, because a connection of the user's pool may count only changed rows.
    fn relabel(&self, entry: &Place<'_>, label: &str, value: &[u8]) -> Message {
        let session = self.session;
        let (table, own) = (table_of(entry.number), own(session, entry));
        Message::transaction(vec![
            enter(session),
            lock(table, &own),
            format!(
                "UPDATE {table} SET label = {}, value = {}, checks = checks + 1 WHERE {own}",
                text(label),
                bytes(value)
            ),
        ])
        .entering()
        .about([entry.dir])
    }

    /// Writes data if all guards are held, and keeps them locked until all of it is written. The
    /// second statement counts the guards by the rows that it finds. A cluster notices only that
    /// two servers have written to the same row, and then undoes one of the writes. The guards'
    /// entries are therefore written too.
    ///
    /// A queue with a note is closed: see `join.rs`. A write without guards may be a note, so it
    /// first locks the queue. A join at the same time would otherwise not find the note, and leave
    /// an open row.
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
        // Each guard is found by its whole key, so that no other row is locked.
        let find = guards.iter().map(|guard| lock(table_of(guard.number), &own(session, guard)));
        let find: Vec<_> = find.collect();
        let mut statements = vec![enter(session)];
        statements.push(match find.as_slice() {
            [] => format!("SELECT 1 {held}"),
            [find] => find.clone(),
            find => format!("({})", find.join(") UNION ALL (")),
        });
        statements.extend(tables.iter().map(mark));
        // The entries of an ended session are removed later.
        let is_there = ending::is_there(session);
        let decide = format!("SELECT {is_there} AND EXISTS (SELECT 1 {held}) INTO @distlock_held");
        statements.push(decide);
        for write in writes {
            let (Write::Put { key, .. } | Write::Delete { key }) = write;
            let (dir, name) = at(key);
            if guards.is_empty() && matches!(write, Write::Put { .. }) {
                statements.push(lock_queue(&dir));
            }
            match write {
                Write::Put { value, .. } => statements.extend([
                    lock_seen("distlock_alone", &format!("queue = {dir} AND epoch <> 0")),
                    format!(
                        "UPDATE distlock_alone SET epoch = 0 WHERE {} AND epoch <> 0",
                        row_of(dir_of(key))
                    ),
                    format!(
                        "REPLACE INTO distlock_data (dir, name, value) \
                         SELECT {dir}, {name}, {} FROM DUAL WHERE @distlock_held",
                        bytes(value)
                    ),
                ]),
                Write::Delete { .. } => statements.push(format!(
                    "DELETE FROM distlock_data WHERE dir = {dir} AND name = {name} \
                     AND @distlock_held"
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

    /// Lists the queues whose directories begin with the namespace and a slash.
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

/// Locks a queue as a join does. The session's row is already locked, unlike in a join: if that
/// leads to a deadlock, the server rolls one of the requests back, and it is repeated.
fn lock_queue(dir: &str) -> String {
    format!(
        "INSERT INTO distlock_queues (queue, number, turn, used) VALUES ({dir}, 0, 0, {NOW}) \
         ON DUPLICATE KEY UPDATE used = {NOW}"
    )
}

/// Locks the row with this whole key and returns it. If a user's transaction has locked the row,
/// the statement fails at once, and the request is repeated. If it waited instead, so would the
/// session's renewal, and the requests of other clients that need the locks of this one.
fn lock(table: &str, own: &str) -> String {
    format!("SELECT 1 FROM {table} WHERE {own} FOR UPDATE NOWAIT")
}

/// Locks a row as [`lock`] does, but only if it matches without a lock. The rows of other entries
/// may be locked.
fn lock_seen(table: &str, which: &str) -> String {
    format!(
        "SELECT 1 FROM (SELECT queue, number FROM {table} WHERE {which} LIMIT 1) AS seen \
         STRAIGHT_JOIN {table} AS e ON e.queue = seen.queue AND e.number = seen.number \
         FOR UPDATE NOWAIT"
    )
}

/// Locks the session until the transaction ends. No row: the session has ended.
fn enter(session: i64) -> String {
    format!(
        "SELECT id FROM distlock_sessions WHERE id = {session} AND NOT {ENDED} LOCK IN SHARE MODE"
    )
}

/// Returns the condition for an entry of the session.
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

/// Lists a queue in order, with its notes, in one statement and so at one moment.
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

/// Deletes the entry with this key. The row of the queue's holder may be locked.
fn evict(Parts { dir, session, ticket, label }: &Parts<'_>) -> [String; 4] {
    let (queue, ticket, label) = (text(dir), text(ticket), text(label));
    let own = format!("session = {session} AND ticket = {ticket} AND label = {label}");
    let entry = format!("queue = {queue} AND {own}");
    [
        lock_seen("distlock_alone", &entry),
        format!("UPDATE distlock_alone SET session = NULL WHERE {} AND {own}", row_of(dir)),
        lock_seen("distlock_entries", &entry),
        format!("DELETE FROM distlock_entries WHERE {entry}"),
    ]
}

pub(super) fn durability() -> Message {
    Message::plain(durability::SQL.map(str::to_owned).into()).by_own_connection()
}

/// Returns the condition for a data row.
fn at(key: &str) -> (String, String) {
    let (dir, name) = key.rsplit_once('/').unwrap_or(("", key));
    (text(dir), text(name))
}

/// Returns a row if the guard's entry is present, and locks the entry until the end of the user's
/// transaction. An entry whose session has expired by the server's clock does not count, even if no
/// other client has been granted the lock yet. The statement does not lock the session's row,
/// because renewals would wait. At `SERIALIZABLE`, InnoDB locks that row too:
/// <https://dev.mysql.com/doc/refman/8.4/en/innodb-transaction-isolation-levels.html>
pub(super) fn held(session: i64, entry: &Place<'_>) -> String {
    format!(
        "SELECT 1 FROM {} WHERE {} AND EXISTS (SELECT 1 FROM distlock_sessions \
         WHERE id = {session} AND expires > {NOW}) LOCK IN SHARE MODE",
        table_of(entry.number),
        own(session, entry)
    )
}

/// Deletes a guard's entry in a user's transaction, and changes a row if the entry was present. In
/// that case no other client has been granted the lock since, nor will be before the transaction
/// ends. The statement does not lock the session's row: with MariaDB's default, a renewal would
/// make every older snapshot fail (1020).
pub(super) fn unlock(session: i64, entry: &Place<'_>) -> String {
    let own = own(session, entry);
    match is_alone(entry.number) {
        true => format!("UPDATE distlock_alone SET session = NULL WHERE {own}"),
        false => format!("DELETE FROM distlock_entries WHERE {own}"),
    }
}
