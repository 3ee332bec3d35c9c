//! The SQL at the start of a connection and of a session. It reads which server this is and whether
//! it is writable, and adapts the tables if the server has changed.

use std::{sync::Arc, time::Duration};

use super::{
    literal::text,
    message::{BEAT, CLOCK, Message},
};
use crate::backend::Ticket;

/// The server's identity. A copy has the same identifier, and continues on another timeline once it
/// is promoted (<https://www.postgresql.org/docs/17/continuous-archiving.html>, "Timelines").
const SERVER: &str = "CASE WHEN pg_is_in_recovery() THEN '' \
                      ELSE (SELECT system_identifier FROM pg_control_system()) || '/' || \
                      substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END";

/// The position up to which its log is on the disk.
const FLUSHED: &str = "CASE WHEN NOT pg_is_in_recovery() \
                       THEN (pg_current_wal_flush_lsn() - '0/0')::bigint END";

/// Disables limits of a role or database that would end the connection, because a waiter is silent
/// for up to a third of its TTL. Servers before version 14 lack the first setting, and servers
/// before version 17 lack the second.
const WITHOUT_LIMITS: &str = "CASE WHEN current_setting('idle_session_timeout', true) <> '0' \
                              THEN set_config('idle_session_timeout', '0', false) END, \
                              CASE WHEN current_setting('transaction_timeout', true) <> '0' \
                              THEN set_config('transaction_timeout', '0', false) END";

/// In `replica`, triggers neither wake waiters nor delete a session's entries with the session.
/// The change needs a superuser, or from PostgreSQL 15 on the `SET` privilege: without these, this
/// fails with an error that names the setting.
const WITH_TRIGGERS: &str = "CASE current_setting('session_replication_role') WHEN 'replica' \
                             THEN set_config('session_replication_role', 'origin', false) END";

/// Returns the first statements of each connection, which also read whether the server is writable.
/// Each connection has a unique name.
///
/// Planning costs more than execution, so plans are made once. They use the indexes and nested
/// loops, because a plan that was made for empty tables also has to suit full ones. Other joins
/// read a whole table.
///
/// The connection does not listen: the server wakes all listeners of a database whenever one is
/// notified. See `listening.rs`.
pub(super) fn hello(connection: i64, patience: Duration) -> String {
    let milliseconds = patience.as_millis().max(4);
    format!(
        "SET distlock.connection = {connection};\n\
         SET default_transaction_isolation = 'read committed';\n\
         SET client_min_messages = warning;\n\
         SET lock_timeout = {};\n\
         SET statement_timeout = {milliseconds};\n\
         SET idle_in_transaction_session_timeout = {milliseconds};\n\
         SET tcp_keepalives_idle = 60;\n\
         SET plan_cache_mode = force_generic_plan;\n\
         SET enable_seqscan = off;\n\
         SET enable_hashjoin = off;\n\
         SET enable_mergejoin = off;\n\
         SET jit = off;\n\
         SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on', \
         to_regclass('distlock.schema') IS NULL, \
         CASE current_setting('synchronous_commit') \
         WHEN 'off' THEN set_config('synchronous_commit', 'on', false) END, {SERVER}, {FLUSHED}, \
         {WITHOUT_LIMITS}, {WITH_TRIGGERS}",
        milliseconds / 2
    )
}

/// Returns the first statements on a connection that a pooler lends for a transaction, whose
/// settings stay unchanged.
pub(super) fn hello_pooled() -> String {
    format!(
        "SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on', \
         to_regclass('distlock.schema') IS NULL, NULL, {SERVER}, {FLUSHED}"
    )
}

/// Reads which server a pooler now leads to, and which run of it: see `distlock.run`.
pub(super) fn run(fresh: i64) -> String {
    format!("SELECT {SERVER}, {FLUSHED}, distlock.run({fresh})")
}

/// The column with the server's identity.
pub(super) const HELLO_SERVER: usize = 4;

/// The column with the position up to which the server's log is on the disk.
pub(super) const HELLO_FLUSHED: usize = 5;

/// Records in the tables which server this is. A server that was set back counts as a new one.
pub(super) fn recognize(server: &str, set_back: bool) -> String {
    let server = text(server);
    let forget = match set_back {
        true => format!("UPDATE distlock.schema SET server = 'before' WHERE server = {server};\n"),
        false => String::new(),
    };
    format!("{CLOCK};\n{forget}SELECT distlock.recognize({server})")
}

/// Deletes the entries that the session has released in these queues. The server may have lost the
/// releases, in a crash or because it is another server.
pub(super) fn delete(session: i64, released: &[(Arc<str>, Ticket)]) -> String {
    let mut dirs: Vec<_> = released.iter().map(|(dir, _)| text(dir)).collect();
    dirs.sort_unstable();
    dirs.dedup();
    let tickets: Vec<_> = released.iter().map(|(_, ticket)| format!("'{ticket}'")).collect();
    format!(
        ";\nSELECT distlock.release({session}, ARRAY[{}]::text[], ARRAY[{}]::uuid[])",
        dirs.join(", "),
        tickets.join(", ")
    )
}

/// Opens a session on this server.
pub(super) fn open(session: i64, milliseconds: u128, server: &str, set_back: bool) -> String {
    format!(
        "{recognize};\n\
         UPDATE distlock.schema SET longest = {ttl} WHERE longest < {ttl};\n\
         INSERT INTO distlock.sessions (id, ttl, expires, beat) \
         VALUES ({session}, {ttl}, now() + {ttl}, {BEAT})",
        recognize = recognize(server, set_back),
        ttl = format_args!("{milliseconds} * interval '1 millisecond'")
    )
}

/// Removes some rows of unused queues. Nothing depends on it, and requests wait for it.
pub(super) fn tidy(patience: Duration) -> Message {
    let milliseconds = (patience / 8).min(Duration::from_millis(200)).as_millis().max(1);
    let tidy = format!("SET LOCAL statement_timeout = {milliseconds};\nSELECT distlock.tidy()");
    Message::from(tidy).tidying()
}
