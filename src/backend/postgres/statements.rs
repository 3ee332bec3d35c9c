//! Most requests to the server, as SQL. Modules such as `opening.rs`, `alone.rs`, `looks.rs` and
//! `pooled.rs` contain the rest, and the `*.sql` files contain the functions that requests call.
//!
//! **A request is one message** of the simple query protocol, with all of its statements. The
//! server runs it in one transaction (<https://www.postgresql.org/docs/17/protocol-flow.html>,
//! "Multiple Statements in a Simple Query"), so it costs one round trip. The server begins only
//! when it has received the whole message, so a broken connection leaves no open transaction with
//! locks that other clients wait for. The protocol has no parameters, so `literal.rs` writes the
//! values.
//!
//! The most frequent requests are one call of a function, or one statement that the connection has
//! prepared (`alone.rs`), so the server plans them once.
//!
//! **READ COMMITTED**: each statement sees what was committed before it began. A statement that
//! waits for a row's lock sees the newest version of that row, and all other rows as of its start
//! (<https://www.postgresql.org/docs/17/transaction-iso.html>). The statements that decide under a
//! lock therefore follow the statement that takes it.

use std::sync::Arc;

use super::{
    in_rows::InRows,
    literal::{bytes, text},
    looks::Look,
    message::{BEAT, LEFT, Message, REMOVED},
};
use crate::backend::{
    Joiner, Result, Write,
    row_key::{Parts, parts},
    sql::{
        key::Place,
        outcome::Outcome,
        replies::{last, nonsense},
        statements::Statements,
        step::Step,
    },
};

/// The requests of one session.
#[derive(Clone, Debug)]
pub(super) struct PostgresStatements {
    pub(super) session: i64,
    pub(super) in_rows: Arc<InRows>,
}

impl Statements for PostgresStatements {
    type Message = Message;

    /// The TTL starts when the server processes the request, while the client counts from the time
    /// of sending. A session that is still present keeps its locks, whatever the clock shows.
    ///
    /// The renewal is not flushed. If a crash of the server undoes it, the client renews again.
    /// After a crash, a session is removed at the earliest 1.1 TTL after a client has connected
    /// again (see `connection.rs`): the crash also deletes all observations (`observed.rs`).
    ///
    /// The request also reads how long the sessions `others` have left, which this client's waiters
    /// wait for. While these are renewed, no further query is needed. A session that seems to live
    /// longer than its TTL is ignored: the clock was set back, and the session may be dead.
    fn keep_alive(&self, others: &[i64]) -> Message {
        let renew = format!(
            "SELECT distlock.unflushed();\n\
             UPDATE distlock.sessions SET expires = now() + ttl, beat = {BEAT} WHERE id = {} \
             AND NOT ended",
            self.session
        );
        if others.is_empty() {
            return Message::from(renew).by_own_connection().renewing();
        }
        // `s.id` distinguishes it in the server's statistics from a pure query.
        let ask = format!(
            "SELECT s.id, {LEFT} FROM distlock.sessions AS s WHERE id IN ({}) \
             AND expires <= now() + ttl;\n",
            ids(others)
        );
        Message::from(ask + &renew).with_expiries().by_own_connection().renewing()
    }

    fn close(&self) -> Message {
        let close = format!("SELECT distlock.remove(ARRAY[{}]::bigint[], {REMOVED})", self.session);
        Message::from(close).by_own_connection()
    }

    fn is_closed(outcomes: &[Outcome]) -> Result<bool> {
        Ok(!last(outcomes)?.first().ok_or_else(nonsense)?.flag(0))
    }

    /// Joins this queue, or all of these or none, by functions that `queue.sql` and `leave.sql`
    /// describe. Several queues are joined only with `if_free`.
    fn join(&self, joiners: &[Joiner<'_>], value: &[u8], if_free: bool) -> Message {
        joiners.iter().for_each(|joiner| self.in_rows.begin(joiner.ticket));
        if let [joiner] = joiners {
            return Step::join(*joiner, value, if_free).into();
        }
        let (session, value) = (self.session, bytes(value));
        let list = |item: &dyn Fn(&Joiner<'_>) -> String| {
            joiners.iter().map(item).collect::<Vec<_>>().join(", ")
        };
        Message::call(
            &format!(
                "enqueue_all({session}, ARRAY[{}]::text[], ARRAY[{}]::uuid[], ARRAY[{}]::text[], \
                 {value})",
                list(&|joiner| text(joiner.queue.dir())),
                list(&|joiner| format!("'{}'", joiner.ticket)),
                list(&|joiner| text(joiner.queue.label())),
            ),
            joiners.len() + 1,
        )
        .joining(joiners.iter().map(|joiner| joiner.queue.dir().to_owned()).collect())
    }

    fn standing(&self, own: &Place<'_>) -> Message {
        let (dir, number) = (text(own.dir), own.number);
        Message::call(&format!("standing({}, {dir}, {number})", self.session), 1)
    }

    fn present(&self, own: &Place<'_>, ahead: &Place<'_>) -> Message {
        Look::at_both(own, ahead).into()
    }

    /// Lists the session's entries and their queues.
    fn own_entries(&self) -> Message {
        let session = self.session;
        let in_any = format!(
            " UNION ALL SELECT {NAME}, queue FROM distlock.queues WHERE session = {session}"
        );
        // No index finds a session's rows.
        let in_rows = match self.in_rows.dirs() {
            None => in_any,
            Some(dirs) if dirs.is_empty() => String::new(),
            Some(dirs) => {
                let dirs: Vec<_> = dirs.iter().map(|dir| text(dir)).collect();
                format!("{in_any} AND queue IN ({})", dirs.join(", "))
            }
        };
        format!(
            "{}SELECT {NAME}, queue FROM distlock.entries WHERE session = {session}{in_rows}",
            require(session, &[], false)
        )
        .into()
    }

    fn leave(&self, of: Joiner<'_>, number: Option<u64>, successor: Option<u64>) -> Message {
        Step::leave(of, number, successor).into()
    }

    /// The last statements return the number of entries written, and the version.
    fn rewrite(&self, entry: &Place<'_>, value: &[u8], version: u64) -> Message {
        let session = self.session;
        let (dir, number) = (text(entry.dir), entry.number);
        format!(
            "{}UPDATE distlock.entries SET value = {}, version = version + 1 \
             WHERE queue = {dir} AND number = {number} AND session = {session} \
             AND version = {version};\n\
             SELECT version FROM distlock.entries \
             WHERE queue = {dir} AND number = {number} AND session = {session}",
            require(session, &[entry.dir], true),
            bytes(value)
        )
        .into()
    }

    /// The entry keeps its number. The last statement counts the entries.
    fn relabel(&self, entry: &Place<'_>, label: &str, value: &[u8]) -> Message {
        let session = self.session;
        format!(
            "{}UPDATE distlock.entries SET label = {}, value = {} \
             WHERE queue = {} AND number = {} AND session = {session}",
            require(session, &[entry.dir], true),
            text(label),
            bytes(value),
            text(entry.dir),
            entry.number
        )
        .into()
    }

    /// Writes data if all guards are held, and keeps them locked until all of it is written. The
    /// second statement returns the guards that are held.
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
        let evicted = writes.iter().filter_map(|write| match write {
            Write::Delete { key } => Some(parts(key)?.dir),
            Write::Put { .. } => None,
        });
        let mut dirs: Vec<_> = guards.iter().map(|place| place.dir).chain(evicted).collect();
        dirs.sort_unstable();
        dirs.dedup();
        let mut sql = format!("{}{keep}", require(session, &dirs, true));
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

    /// Lists the queues whose directories begin with the namespace and a slash.
    fn queues(&self, namespace: &str) -> Message {
        // `0` is the character after `/`.
        Message::sweeping(format!(
            "{}SELECT DISTINCT queue FROM distlock.members WHERE queue >= {} AND queue < {} \
             ORDER BY queue",
            require(self.session, &[], false),
            text(&format!("{namespace}/")),
            text(&format!("{namespace}0"))
        ))
    }
}

/// Fails if the session was removed. `writes`: the session stays until the transaction ends. From
/// then on the entries of these queues are in `entries`, and no client joins the queues in the
/// meantime.
fn require(session: i64, queues: &[&str], writes: bool) -> String {
    let confirms = if writes { String::new() } else { format!(", {CONFIRMS}") };
    let crowd: String =
        queues.iter().map(|dir| format!(", distlock.crowd({})", text(dir))).collect();
    format!("SELECT distlock.require({session}, {writes}){crowd}{confirms};\n")
}

/// Makes a transaction without other writes wait for the standbys that the server waits for, if
/// any. By then they also have everything that it has read.
///
/// A change becomes visible when no session waits for its confirmation, even if it was not
/// confirmed. This happens when the waiting sessions were ended, or the server was restarted. A
/// standby that was promoted in the meantime never receives that change.
const CONFIRMS: &str = "CASE WHEN current_setting('synchronous_standby_names') <> '' \
                        THEN pg_logical_emit_message(true, 'distlock', '') END";

fn ids(sessions: &[i64]) -> String {
    sessions.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

/// The columns of an entry's key: see `key.rs`.
const NAME: &str = "number, to_hex(session), ticket, label";

/// Ends a watch on an entry, or with the number 0 on a queue.
pub(super) fn unwatch(session: i64, dir: &str, number: u64) -> String {
    format!("SELECT distlock.unwatch({session}, {}, {number})", text(dir))
}

/// Removes expired sessions.
pub(super) fn sweep() -> Message {
    Message::sweeping("SELECT 1".to_owned())
}

/// Returns the milliseconds that these sessions have left, after it has removed the expired ones.
pub(super) fn expiries(sessions: &[i64]) -> Message {
    let ids = ids(sessions);
    Message::sweeping(format!("SELECT id, {LEFT} FROM distlock.sessions AS s WHERE id IN ({ids})"))
        .with_expiries()
}

/// Lists a queue in order, with its notes, in one statement and so at one moment. `watch`: the
/// watch begins before, and no client changes the queue in between. Expired sessions are then not
/// removed first, because that would change the queue. They are removed soon.
pub(super) fn list(session: i64, dir: &str, values: bool, watch: bool) -> Message {
    let name = text(dir);
    let first = match watch {
        false => String::new(),
        true => format!("SELECT distlock.watch_queue({session}, {name});\n"),
    };
    let detail = match values {
        false => "NULL, NULL::bigint, NULL::bigint",
        true => "encode(value, 'hex'), version, (extract(epoch FROM since) * 1000)::bigint",
    };
    let sql = format!(
        "{}{first}\
         SELECT {NAME}, {LEFT}, {detail}, NULL, s.expires < now() \
         FROM distlock.members JOIN distlock.sessions AS s ON s.id = session WHERE queue = {name} \
         UNION ALL \
         SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, name, NULL FROM distlock.data \
         WHERE dir = {name} ORDER BY 1, 9",
        require(session, &[], watch)
    );
    if watch { Message::from(sql).listening() } else { Message::sweeping(sql) }
}

/// Returns the condition for these entries of a session.
fn places(session: i64, places: &[Place<'_>]) -> String {
    let place =
        |place: &Place<'_>| format!("(queue = {} AND number = {})", text(place.dir), place.number);
    let places: Vec<_> = places.iter().map(place).collect();
    format!("FROM distlock.entries WHERE session = {session} AND ({})", places.join(" OR "))
}

/// Deletes the entry with this key, if it is valid.
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
