//! What a connection and a session begin with, as SQL: whether the server can be written to, which
//! one it is, and what follows if it is another one than before.

use super::{
    literal::text,
    message::{BEAT, CLOCK},
};

/// The session that stands in front of all who join while nothing is granted: see
/// `distlock.recognize` in `schema.sql`.
pub(super) const QUARANTINE: i64 = 0;

/// What its entries say of themselves.
pub(super) const QUARANTINED: &[u8] = b"distlock: the database has failed over, or was restored";

/// Which server it is: a copy has the same identifier, and goes on in another timeline once it is
/// promoted (<https://www.postgresql.org/docs/17/continuous-archiving.html>, "Timelines").
const SERVER: &str = "CASE WHEN pg_is_in_recovery() THEN '' \
                      ELSE (SELECT system_identifier FROM pg_control_system()) || '/' || \
                      substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END";

/// What each connection begins with, and whether the server can be written to. The connection is
/// called by a number that no other has.
///
/// Planning costs more than what is planned: so plans are made once, and by way of the indexes, as
/// a plan that was made while the tables were empty is to do when they are full.
pub(super) fn hello(session: i64, connection: i64, patience: std::time::Duration) -> String {
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
         SET jit = off;\n\
         SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on', \
         to_regclass('distlock.schema') IS NULL, \
         CASE current_setting('synchronous_commit') \
         WHEN 'off' THEN set_config('synchronous_commit', 'on', false) END, {SERVER};\n\
         LISTEN distlock_{session:x}",
        milliseconds / 2
    )
}

/// Which of its statements tells what the server is.
pub(super) const HELLO_TELLS: usize = 10;

/// Which of its columns tells which server it is.
pub(super) const HELLO_SERVER: usize = 4;

/// Tells the tables which server it is.
pub(super) fn recognize(server: &str) -> String {
    format!("{CLOCK};\nSELECT distlock.recognize({})", text(server))
}

/// Deletes what the session has released: a server that is another one than before may have missed
/// that.
pub(super) fn delete(session: i64, tickets: &str) -> String {
    format!(
        ";\nDELETE FROM distlock.entries WHERE session = {session} \
         AND ticket = ANY (ARRAY[{tickets}]::uuid[])"
    )
}

/// Begins a session on this server, and puts away the rows of queues that nobody has used for a
/// day. What these had for a number, none will have again.
pub(super) fn open(session: i64, milliseconds: u128, server: &str) -> String {
    format!(
        "{recognize};\n\
         UPDATE distlock.schema SET longest = {ttl} WHERE longest < {ttl};\n\
         WITH idle AS (SELECT queue FROM distlock.queues AS q \
         WHERE used < now() - interval '1 day' \
         AND NOT EXISTS (SELECT FROM distlock.entries AS e WHERE e.queue = q.queue) \
         ORDER BY queue LIMIT 1000 FOR UPDATE SKIP LOCKED), \
         gone AS (DELETE FROM distlock.queues AS q USING idle WHERE q.queue = idle.queue \
         RETURNING q.number) \
         UPDATE distlock.schema SET floor = greatest(floor, (SELECT max(number) FROM gone)) \
         WHERE EXISTS (SELECT FROM gone);\n\
         INSERT INTO distlock.sessions (id, ttl, expires, beat) \
         VALUES ({session}, {ttl}, now() + {ttl}, {BEAT})",
        recognize = recognize(server),
        ttl = format_args!("{milliseconds} * interval '1 millisecond'")
    )
}
