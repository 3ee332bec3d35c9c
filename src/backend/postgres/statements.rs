//! What is asked of the server, as SQL: with `opening.rs` and `message.rs` all that has the words
//! of this database in it.
//!
//! **A request is one message** of the simple query protocol, with all of its statements. The
//! server runs it in one transaction (<https://www.postgresql.org/docs/17/protocol-flow.html>,
//! "Multiple Statements in a Simple Query"), so that it costs one round trip, and it begins only
//! when the message has come whole: no connection that breaks leaves a transaction open, with locks
//! that others wait for. As the protocol has no parameters, values are written by `literal.rs`.
//!
//! **READ COMMITTED**, so that each statement sees what was committed before it began. A statement
//! that waits for a row's lock sees the newest version of that row alone, and all other rows as
//! they were before it waited (<https://www.postgresql.org/docs/17/transaction-iso.html>). So what
//! is decided under a lock is decided by the statements after the one that takes it.

use super::{
    literal::{bytes, text},
    message::{BEAT, LEFT, Message},
    opening::{QUARANTINE, QUARANTINED},
};
use crate::backend::{
    Joiner, Write,
    name::NOBODY,
    row_key::{Parts, parts},
    sql::{key::Place, statements::Statements},
};

/// What one session asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct PostgresStatements {
    pub(super) session: i64,
}

impl Statements for PostgresStatements {
    type Message = Message;

    /// Counts from when the request came: the client counts from when it was sent. A session that
    /// is still there holds what it held, whatever the clock shows.
    ///
    /// It asks after `others` on the way, that somebody waits for here: as long as these are
    /// renewed, nobody has to look for them. One that seems to live for longer than it may says
    /// nothing: the clock was set back, and it may be dead.
    fn keep_alive(&self, others: &[i64]) -> Message {
        let renew = format!(
            "UPDATE distlock.sessions SET expires = now() + ttl, beat = {BEAT} WHERE id = {}",
            self.session
        );
        if others.is_empty() {
            return renew.into();
        }
        // By `s.id` the server's statistics tell it from a request that asks for nothing else.
        let ask = format!(
            "SELECT s.id, {LEFT} FROM distlock.sessions AS s WHERE id IN ({}) \
             AND expires <= now() + ttl;\n",
            ids(others)
        );
        Message::from(ask + &renew).telling_expiries()
    }

    fn close(&self) -> Message {
        format!("DELETE FROM distlock.sessions WHERE id = {}", self.session).into()
    }

    /// Joins all of these queues or none. `if_free`: only if nobody is in any of them; then nothing
    /// is written otherwise, but for a number that is skipped if somebody comes at the same moment.
    ///
    /// Who joins locks the queue's row, in the order of the names, and takes the next number: so
    /// numbers are in the order of the commits. (Those of a sequence are not.) `turn`, a number
    /// that nobody else has drawn, shows that the row was locked by this request.
    ///
    /// While nothing is granted, [`QUARANTINE`] joins each of them just before, and nobody with
    /// `if_free`.
    ///
    /// Its last statements are one [`joined`] for each queue and, with `if_free`, whether somebody
    /// is there and all of them are over by the clock; and whether nothing is granted, and nobody
    /// is known to be there.
    fn join(&self, turn: i64, joiners: &[Joiner<'_>], value: &[u8], if_free: bool) -> Message {
        let session = self.session;
        let mut sorted: Vec<_> = joiners.iter().collect();
        sorted.sort_by_key(|joiner| joiner.queue.dir());
        let names =
            sorted.iter().map(|joiner| text(joiner.queue.dir())).collect::<Vec<_>>().join(", ");
        let quarantined = format!("EXISTS (SELECT FROM distlock.sessions WHERE id = {QUARANTINE})");
        let free = match if_free {
            true => format!(
                "NOT EXISTS (SELECT FROM distlock.entries WHERE queue IN ({names})) \
                 AND NOT {quarantined}"
            ),
            false => "true".to_owned(),
        };
        let locked: Vec<_> =
            sorted.iter().map(|joiner| format!("({})", text(joiner.queue.dir()))).collect();
        let wanted: Vec<_> = sorted
            .iter()
            .map(|Joiner { queue, ticket }| {
                format!("({}, uuid '{ticket}', {})", text(queue.dir()), text(queue.label()))
            })
            .collect();
        let mut sql = format!(
            "{enter}\
             INSERT INTO distlock.queues AS q (queue, number, turn) \
             SELECT name, 0, {turn} FROM (VALUES {locked}) AS asked (name) WHERE {free} \
             ON CONFLICT (queue) DO UPDATE SET turn = {turn}, used = now();\n\
             WITH asked (queue, ticket, label) AS (VALUES {wanted}), \
             given AS (UPDATE distlock.queues AS q \
             SET number = greatest(q.number, (SELECT floor FROM distlock.schema)) \
             + CASE WHEN {quarantined} THEN 2 ELSE 1 END FROM asked \
             WHERE q.queue = asked.queue AND q.turn = {turn} AND {free} \
             AND NOT EXISTS (SELECT FROM distlock.entries AS e \
             WHERE e.session = {session} AND e.ticket = asked.ticket) \
             RETURNING q.queue, q.number, asked.ticket, asked.label) \
             INSERT INTO distlock.entries (queue, number, session, ticket, label, value) \
             SELECT queue, number, {session}, ticket, label, {value} FROM given UNION ALL \
             SELECT queue, number - 1, {QUARANTINE}, ticket, '{NOBODY}', {phantom} FROM given \
             WHERE {quarantined}",
            enter = enter(session, true),
            locked = locked.join(", "),
            wanted = wanted.join(", "),
            value = bytes(value),
            phantom = bytes(QUARANTINED),
        );
        for joiner in joiners {
            sql += ";\n";
            sql += &joined(session, joiner);
        }
        if if_free {
            // It ends at the first one who lives: queues may be long.
            sql += &format!(
                ";\nSELECT there AND NOT alive, {quarantined} AND NOT alive FROM (SELECT EXISTS \
                 (SELECT FROM distlock.entries WHERE queue IN ({names})) AS there, EXISTS (SELECT \
                 FROM distlock.entries AS e JOIN distlock.sessions AS s ON s.id = e.session WHERE \
                 queue IN ({names}) AND s.id <> {QUARANTINE} AND s.expires >= now()) AS alive) AS \
                 seen"
            );
        }
        Message::sweeping(sql)
    }

    /// Its last statement tells of the entry with this number and the two in front of it.
    fn standing(&self, own: &Place<'_>) -> Message {
        let (dir, number) = (text(own.dir), own.number);
        Message::sweeping(format!(
            "{}SELECT {NAME} FROM distlock.entries WHERE queue = {dir} AND number <= {number} \
             ORDER BY number DESC LIMIT 3",
            enter(self.session, false)
        ))
    }

    fn present(&self, own: &Place<'_>, ahead: &Place<'_>) -> Message {
        Message::sweeping(format!(
            "{}SELECT {NAME} FROM distlock.entries WHERE queue = {} AND number IN ({}, {})",
            enter(self.session, false),
            text(own.dir),
            own.number,
            ahead.number
        ))
    }

    /// All entries of the session, and the queues that they are in.
    fn own_entries(&self) -> Message {
        let session = self.session;
        format!(
            "{}SELECT {NAME}, queue FROM distlock.entries WHERE session = {session}",
            enter(session, false)
        )
        .into()
    }

    /// Its last statements tell how many entries were deleted; and the queue's last number, which
    /// no entry has that joined after the deletion, and whether the successor's is there.
    fn leave(&self, of: Joiner<'_>, number: Option<u64>, successor: Option<u64>) -> Message {
        let session = self.session;
        let dir = text(of.queue.dir());
        let known = number.map_or(String::new(), |number| format!(" AND number = {number}"));
        let successor = successor.map_or("false".to_owned(), |number| {
            format!(
                "EXISTS (SELECT FROM distlock.entries WHERE queue = {dir} AND number = {number} \
                 AND session = {session})"
            )
        });
        format!(
            "{}DELETE FROM distlock.entries WHERE session = {session} AND ticket = uuid '{}' \
             AND queue = {dir} AND label = {}{known};\n\
             SELECT (SELECT number FROM distlock.queues WHERE queue = {dir}), {successor}",
            enter(session, true),
            of.ticket,
            text(of.queue.label())
        )
        .into()
    }

    /// Its last statements tell how many entries were written, and which version there is.
    fn rewrite(&self, entry: &Place<'_>, value: &[u8], version: u64) -> Message {
        let session = self.session;
        let (dir, number) = (text(entry.dir), entry.number);
        format!(
            "{}UPDATE distlock.entries SET value = {}, version = version + 1 \
             WHERE queue = {dir} AND number = {number} AND session = {session} \
             AND version = {version};\n\
             SELECT version FROM distlock.entries \
             WHERE queue = {dir} AND number = {number} AND session = {session}",
            enter(session, true),
            bytes(value)
        )
        .into()
    }

    /// It keeps its number. Its last statement tells how many entries there were.
    fn relabel(&self, entry: &Place<'_>, label: &str, value: &[u8]) -> Message {
        let session = self.session;
        format!(
            "{}UPDATE distlock.entries SET label = {}, value = {} \
             WHERE queue = {} AND number = {} AND session = {session}",
            enter(session, true),
            text(label),
            bytes(value),
            text(entry.dir),
            entry.number
        )
        .into()
    }

    /// Writes data if all guards are there; they stay there until all of it is written. Its second
    /// statement tells which of them are.
    fn commit(&self, guards: &[Place<'_>], writes: &[Write]) -> Message {
        let session = self.session;
        let found = places(session, guards);
        let (keep, held) = match guards {
            [] => ("SELECT 1".to_owned(), "true".to_owned()),
            guards => (
                format!("SELECT 1 {found} FOR KEY SHARE"),
                format!("(SELECT count(*) {found}) = {}", guards.len()),
            ),
        };
        let mut sql = format!("{}{keep}", enter(session, true));
        for write in writes {
            let (Write::Put { key, .. } | Write::Delete { key }) = write;
            let (dir, name) = key.rsplit_once('/').unwrap_or(("", key));
            let (dir, name) = (text(dir), text(name));
            sql += &match write {
                Write::Put { value, .. } => format!(
                    ";\nINSERT INTO distlock.data (dir, name, value) \
                     SELECT {dir}, {name}, {} WHERE {held} \
                     ON CONFLICT (dir, name) DO UPDATE SET value = excluded.value",
                    bytes(value)
                ),
                Write::Delete { .. } => format!(
                    ";\nDELETE FROM distlock.data WHERE dir = {dir} AND name = {name} AND {held}{}",
                    evict(key)
                ),
            };
        }
        sql.into()
    }

    fn read(&self, key: &str) -> Message {
        let (dir, name) = key.rsplit_once('/').unwrap_or(("", key));
        format!(
            "SELECT {CONFIRMS};\nSELECT encode(value, 'hex') FROM distlock.data \
             WHERE dir = {} AND name = {}",
            text(dir),
            text(name)
        )
        .into()
    }

    /// The queues whose directories begin with the namespace and a slash.
    fn queues(&self, namespace: &str) -> Message {
        // `0` is the character after `/`.
        Message::sweeping(format!(
            "{}SELECT DISTINCT queue FROM distlock.entries WHERE queue >= {} AND queue < {} \
             ORDER BY queue",
            enter(self.session, false),
            text(&format!("{namespace}/")),
            text(&format!("{namespace}0"))
        ))
    }
}

/// Fails if the session was put away. `writes`: nobody puts it away before the transaction's end.
/// What only reads is answered when all that it has read is confirmed.
fn enter(session: i64, writes: bool) -> String {
    let confirms = if writes { String::new() } else { format!(", {CONFIRMS}") };
    format!("SELECT distlock.enter({session}, {writes}){confirms};\n")
}

/// Makes a transaction that writes nothing else wait for the standbys that the server waits for,
/// if there are to be any: by then they have all that it has read, too.
///
/// A change is seen as soon as nobody waits any more for its being confirmed, whether it was or
/// not: also when those were ended who waited, or the server was started again. If a standby has
/// been promoted meanwhile, it knows nothing of that change, and never will.
const CONFIRMS: &str = "CASE WHEN current_setting('synchronous_standby_names') <> '' \
                        THEN pg_logical_emit_message(true, 'distlock', '') END";

fn ids(sessions: &[i64]) -> String {
    sessions.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

/// The own entry and the two in front of it, nearest first, with whether there is anything else in
/// the queue. No rows: it is not there.
fn joined(session: i64, joiner: &Joiner<'_>) -> String {
    let (dir, ticket) = (text(joiner.queue.dir()), joiner.ticket);
    format!(
        "SELECT {NAME}, EXISTS (SELECT FROM distlock.data WHERE dir = {dir}) OR EXISTS (\
         SELECT FROM distlock.entries AS o WHERE o.queue = {dir} \
         AND NOT (o.session = {session} AND o.ticket = uuid '{ticket}')) \
         FROM distlock.entries AS e WHERE queue = {dir} AND number <= (\
         SELECT number FROM distlock.entries WHERE session = {session} \
         AND ticket = uuid '{ticket}' AND queue = {dir}) ORDER BY number DESC LIMIT 3"
    )
}

/// The columns that make an entry's key: see `key.rs`.
const NAME: &str = "number, to_hex(session), ticket, label";

/// The entry stays as it is from the look to the end of the transaction: one who deletes it then
/// finds who watches it. Its second statement tells of the entry, and how many milliseconds its
/// session has left.
pub(super) fn watch(session: i64, entry: &Place<'_>) -> Message {
    let (dir, number) = (text(entry.dir), entry.number);
    Message::sweeping(format!(
        "{}SELECT {NAME}, {LEFT} \
         FROM distlock.entries AS e JOIN distlock.sessions AS s ON s.id = e.session \
         WHERE queue = {dir} AND number = {number} FOR SHARE OF e;\n\
         INSERT INTO distlock.watches (queue, number, session) \
         SELECT queue, number, {session} FROM distlock.entries \
         WHERE queue = {dir} AND number = {number} ON CONFLICT DO NOTHING",
        enter(session, true)
    ))
}

/// Where in the answer to [`watch`] the entry is told of.
pub(super) const WATCH_TELLS: usize = 1;

/// Ends a watch on an entry, or with the number 0 on a queue.
pub(super) fn unwatch(session: i64, dir: &str, number: u64) -> String {
    format!(
        "DELETE FROM distlock.watches WHERE queue = {} AND number = {number} \
         AND session = {session}",
        text(dir)
    )
}

/// How many milliseconds these sessions have left; those that are over are put away first.
pub(super) fn expiries(sessions: &[i64]) -> Message {
    let ids = ids(sessions);
    Message::sweeping(format!("SELECT id, {LEFT} FROM distlock.sessions AS s WHERE id IN ({ids})"))
        .telling_expiries()
}

/// All that is in a queue, in its order, and the notes: one statement, so that it is of one moment.
/// `watch`: it begins before, and nobody changes the queue in between. Then no session is put away
/// first, which would change the queue: it is known at once to be due.
pub(super) fn list(session: i64, dir: &str, values: bool, watch: bool) -> Message {
    let name = text(dir);
    let first = match watch {
        false => String::new(),
        true => format!(
            "SELECT distlock.still({name});\n\
             INSERT INTO distlock.watches (queue, number, session) VALUES ({name}, 0, {session}) \
             ON CONFLICT DO NOTHING;\n"
        ),
    };
    let detail = match values {
        false => "NULL, NULL::bigint, NULL::bigint",
        true => "encode(value, 'hex'), version, (extract(epoch FROM since) * 1000)::bigint",
    };
    let sql = format!(
        "{}{first}\
         SELECT {NAME}, {LEFT}, {detail}, NULL, s.expires < now() \
         FROM distlock.entries JOIN distlock.sessions AS s ON s.id = session WHERE queue = {name} \
         UNION ALL \
         SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, name, NULL FROM distlock.data \
         WHERE dir = {name} ORDER BY 1, 9",
        enter(session, watch)
    );
    if watch { sql.into() } else { Message::sweeping(sql) }
}

/// These entries of a session.
fn places(session: i64, places: &[Place<'_>]) -> String {
    let place =
        |place: &Place<'_>| format!("(queue = {} AND number = {})", text(place.dir), place.number);
    let places: Vec<_> = places.iter().map(place).collect();
    format!("FROM distlock.entries WHERE session = {session} AND ({})", places.join(" OR "))
}

/// Deletes the entry that has this key, if it is one's.
fn evict(key: &str) -> String {
    parts(key).map_or(String::new(), |Parts { dir, session, ticket, label }| {
        format!(
            ";\nDELETE FROM distlock.entries WHERE queue = {} AND session = {session} \
             AND ticket::text = {} AND label = {}",
            text(dir),
            text(ticket),
            text(label)
        )
    })
}
