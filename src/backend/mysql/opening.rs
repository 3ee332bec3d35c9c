//! The SQL at the start of a connection and of a session. It reads which server this is and whether
//! it is writable, and adapts the tables if the server has changed.

use super::{
    ending::{ENDED, QUARANTINE},
    literal::text,
    message::{CONNECTION, EPOCH, Message},
    time::{BEAT, CLOCK, NOW},
};
use crate::runtime::random;

/// Returns the first statements of each connection, which also read whether the server is writable.
/// A connection that is silent for `silence` has lost its session, and must not keep a transaction
/// open. Each connection has a unique name: see `Link::is_own`.
///
/// The statements set everything that a server's or a user's default might change, also by
/// `init_connect`. With `completion_type = CHAIN` a keepalive would stay uncommitted, and
/// `sql_select_limit` truncates results, including those of these statements. The server converts
/// texts to the character set of `collation_connection`, and stores and compares the result as
/// bytes. With `innodb_snapshot_isolation`, MariaDB's default, an `UPDATE` waits for rows that it
/// would otherwise skip: see `alone.rs`.
pub(super) fn hello(
    connection: i64,
    patience: std::time::Duration,
    silence: std::time::Duration,
) -> Message {
    let seconds = patience.as_secs().max(1);
    let locks = seconds.div_ceil(2);
    let silence = silence.as_secs().clamp(1, 1_000_000) + 1;
    Message::plain(vec![
        // By itself, because it decides how the texts of the next statements are read.
        "SET SESSION collation_connection = 'utf8mb4_bin'".to_owned(),
        format!(
            "SET {CONNECTION} = {connection}, \
             SESSION sql_mode = 'STRICT_ALL_TABLES', SESSION group_concat_max_len = 1024, \
             SESSION autocommit = 1, SESSION completion_type = 0, \
             SESSION sql_select_limit = 18446744073709551615, SESSION sql_big_selects = 1, \
             SESSION time_zone = '+00:00', SESSION foreign_key_checks = 1, \
             SESSION unique_checks = 1, SESSION sql_safe_updates = 0"
        ),
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED".to_owned(),
        format!(
            "SET SESSION innodb_lock_wait_timeout = {locks}, SESSION lock_wait_timeout = {locks}, \
             SESSION wait_timeout = {silence}, SESSION net_write_timeout = {seconds} \
             /*M!100101 , SESSION max_statement_time = {:.3} */ \
             /*M!110602 , SESSION innodb_snapshot_isolation = 0 */",
            0.9 * patience.as_secs_f64()
        ),
        "SHOW VARIABLES WHERE Variable_name IN ('read_only', 'super_read_only', \
         'innodb_read_only', 'transaction_read_only', 'tx_read_only')"
            .to_owned(),
        "SELECT COUNT(*) = 0 FROM information_schema.tables \
         WHERE table_schema = DATABASE() AND table_name = 'distlock_schema'"
            .to_owned(),
        "SHOW GLOBAL VARIABLES WHERE Variable_name IN \
         ('server_uuid', 'hostname', 'port', 'server_id')"
            .to_owned(),
        "SHOW GLOBAL STATUS WHERE Variable_name = 'wsrep_cluster_state_uuid'".to_owned(),
    ])
}

/// Makes each query see what any server of the cluster has confirmed before.
pub(super) fn wait_for_others() -> Message {
    Message::plain(vec!["SET SESSION wsrep_sync_wait = 1".to_owned()])
}

/// The positions in the reply to [`hello`] of the settings that make a server read-only, of the
/// check for tables, and of the server's identity.
pub(super) const HELLO_SETTINGS: usize = 4;
pub(super) const HELLO_BARE: usize = 5;
pub(super) const HELLO_SERVER: std::ops::Range<usize> = 6..8;

/// The value of the entries of [`QUARANTINE`].
pub(super) const QUARANTINED: &[u8] = b"distlock: the database has failed over, or was restored";

/// Records the server in tables that another server has used. It may be a promoted replica or a
/// restored backup, and lack the last confirmed writes: renewals, grants and numbers. All sessions
/// therefore live for another TTL, and numbers continue far above all known ones. For 1.1 times the
/// longest TTL of any session, [`QUARANTINE`] precedes all joiners. It is removed like any session
/// that is not renewed.
pub(super) fn recognize(server: &str) -> Message {
    let server = text(server);
    Message::transaction(vec![
        // New tables have recorded no server.
        format!("UPDATE distlock_schema SET server = {server} WHERE id = 1 AND server = ''"),
        format!(
            "UPDATE distlock_schema SET server = {server}, epoch = {}, \
             floor = 100000000 + GREATEST(floor, \
             (SELECT COALESCE(MAX(number), 0) FROM distlock_queues), \
             (SELECT COALESCE(MAX(number), 0) FROM distlock_alone)) \
             WHERE id = 1 AND server <> {server}",
            random::id()
        ),
        "SET @distlock_other = ROW_COUNT()".to_owned(),
        format!(
            "UPDATE distlock_sessions SET expires = {NOW} + ttl, clock = {CLOCK}, beat = {BEAT} \
             WHERE @distlock_other > 0 AND NOT {ENDED}"
        ),
        quarantine(),
        // Sessions that these tables lack have expired when the quarantine ends.
        format!(
            "UPDATE distlock_schema SET longest = (SELECT COALESCE(MAX(ttl), 0) \
             FROM distlock_sessions WHERE id <> {QUARANTINE}) WHERE id = 1 AND @distlock_other > 0"
        ),
    ])
}

/// Grants nothing for 1.1 times the longest TTL of any session.
fn quarantine() -> String {
    format!(
        "INSERT INTO distlock_sessions (id, ttl, expires, clock, beat) \
         SELECT {QUARANTINE}, longest, {NOW} + longest, {CLOCK}, {BEAT} FROM distlock_schema \
         WHERE id = 1 AND longest > 0 AND @distlock_other > 0 \
         ON DUPLICATE KEY UPDATE ttl = GREATEST(distlock_sessions.ttl, longest), \
         expires = {NOW} + distlock_sessions.ttl, beat = {BEAT}"
    )
}

/// Takes the tables over from the clients of version 1. They can no longer begin a session (see
/// `schema.rs`), and none of their requests finds its session. Their holders give up at their
/// deadlines, or when they learn that their session has gone, at most the longest TTL later.
/// Nothing is granted for 1.1 times that TTL.
pub(super) fn take_over() -> Message {
    Message::transaction(vec![
        "SELECT version = 1 INTO @distlock_other FROM distlock_schema WHERE id = 1 FOR UPDATE"
            .to_owned(),
        "UPDATE distlock_schema SET longest = GREATEST(longest, \
         (SELECT COALESCE(MAX(ttl), 0) FROM distlock_sessions)) \
         WHERE id = 1 AND @distlock_other > 0"
            .to_owned(),
        "DELETE FROM distlock_sessions WHERE @distlock_other > 0".to_owned(),
        quarantine(),
        format!(
            "UPDATE distlock_schema SET version = 2, longest = 0, epoch = {} \
             WHERE id = 1 AND @distlock_other > 0",
            random::id()
        ),
    ])
}

/// Reads the epoch of the tables, for the later requests on this connection.
pub(super) fn epoch() -> Message {
    Message::plain(vec![format!("SELECT epoch INTO {EPOCH} FROM distlock_schema WHERE id = 1")])
}

/// Deletes the entries that the session has released, because another server may have missed that.
pub(super) fn delete(session: i64, tickets: &str) -> Message {
    let own = format!("WHERE session = {session} AND ticket IN ({tickets})");
    Message::plain(vec![
        format!("UPDATE distlock_alone SET session = NULL {own}"),
        format!("DELETE FROM distlock_entries {own}"),
    ])
}

/// Opens a session.
pub(super) fn open(session: i64, microseconds: u128) -> Message {
    Message::plain(vec![
        format!(
            "UPDATE distlock_schema SET longest = {microseconds} \
             WHERE id = 1 AND longest < {microseconds}"
        ),
        format!(
            "INSERT INTO distlock_sessions (id, ttl, expires, clock, beat) \
             VALUES ({session}, {microseconds}, {NOW} + {microseconds}, {CLOCK}, {BEAT})"
        ),
    ])
}

/// The name of the lock of the client that tidies. It is a named lock of the server, and locks no
/// row.
const TIDYING: &str = "CONCAT('distlock ', SHA1(DATABASE()))";

/// The mark of the rows of `distlock_queues` that [`tidy`] removes, in place of the time of their
/// last use.
const IDLE: i64 = -1;

/// Removes the rows of queues that were unused for 20 s: among the next 1,000 of `distlock_alone`,
/// and up to 1,000 of `distlock_queues`. It locks no row of another queue. Later entries never
/// reuse a number of these rows. The same transaction raises the floor, and a join reads the floor
/// once its queue's row exists again.
///
/// An `INSERT` marks the rows of `distlock_queues` first, because its subquery reads entries
/// without locks. A `DELETE` would wait for each transaction that has deleted an entry, such as a
/// user's release.
///
/// One client tidies at a time. [`tidied`] has to follow in any case. The last statement returns
/// whether there may be more to remove.
pub(super) fn tidy() -> Message {
    let alone = "FROM distlock_alone WHERE queue > @distlock_after";
    let idle = "FROM distlock_queues AS i FORCE INDEX (used) WHERE used < @distlock_before \
                AND NOT EXISTS (SELECT 1 FROM distlock_entries AS e WHERE e.queue = i.queue)";
    Message::transaction(vec![
        // Before the epoch no row was used.
        format!("SET @distlock_before = IF(GET_LOCK({TIDYING}, 0), {NOW} - 20000000, 0)"),
        "SELECT tidied, floor INTO @distlock_after, @distlock_floor FROM distlock_schema \
         WHERE id = 1"
            .to_owned(),
        format!(
            "SELECT MAX(queue), COUNT(*), GREATEST(@distlock_floor, COALESCE(MAX(number), 0)) \
             INTO @distlock_last, @distlock_seen, @distlock_floor \
             FROM (SELECT queue, IF(since < @distlock_before AND session IS NULL, number, 0) \
             AS number {alone} ORDER BY queue LIMIT 1000) AS next"
        ),
        format!(
            "DELETE a FROM (SELECT queue {alone} AND queue <= @distlock_last \
             AND since < @distlock_before AND session IS NULL AND number <= @distlock_floor \
             LIMIT 1000 FOR UPDATE SKIP LOCKED) AS idle \
             STRAIGHT_JOIN distlock_alone AS a ON a.queue = idle.queue"
        ),
        // This reads without locks, unlike `SET … = (SELECT …)`.
        format!(
            "SELECT GREATEST(@distlock_floor, COALESCE(MAX(number), 0)) INTO @distlock_floor FROM \
             (SELECT number {idle} ORDER BY used LIMIT 1000) AS idle"
        ),
        format!(
            "INSERT INTO distlock_queues (queue, number, turn, used) \
             SELECT queue, 0, 0, {IDLE} FROM (SELECT queue {idle} AND number <= @distlock_floor \
             ORDER BY used LIMIT 1000 FOR UPDATE SKIP LOCKED) AS idle \
             ON DUPLICATE KEY UPDATE used = {IDLE}"
        ),
        format!("DELETE FROM distlock_queues WHERE used = {IDLE}"),
        "SET @distlock_gone = ROW_COUNT()".to_owned(),
        // The last change, because every join reads this row.
        "UPDATE distlock_schema SET floor = GREATEST(floor, @distlock_floor), \
         tidied = IF(@distlock_seen < 1000, '', @distlock_last) \
         WHERE id = 1 AND @distlock_before > 0"
            .to_owned(),
        "SELECT @distlock_before > 0 AND (@distlock_seen = 1000 OR @distlock_gone = 1000)"
            .to_owned(),
    ])
    .tidying()
}

/// Lets other clients tidy.
pub(super) fn tidied() -> Message {
    Message::plain(vec![format!("DO RELEASE_LOCK({TIDYING})")])
}
