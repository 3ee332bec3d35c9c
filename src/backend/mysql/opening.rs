//! What a connection and a session begin with, as SQL: whether the server can be written to, which
//! one it is, and what follows if it is another one than before.

use super::{
    ending::{ENDED, QUARANTINE},
    literal::text,
    message::{CONNECTION, EPOCH, Message},
    time::{BEAT, CLOCK, NOW},
};
use crate::runtime::random;

/// What each connection begins with, and whether the server can be written to. A connection that is
/// silent for that long has lost its session, and is not to keep a transaction open. The connection
/// is called by a number that no other has: see `Link::is_own`.
///
/// Whatever a server's or a user's default would change is set: with `completion_type = CHAIN` a
/// keepalive would stay uncommitted, and `sql_select_limit` cuts off what is read, also here. With
/// `innodb_snapshot_isolation`, MariaDB's default, an `UPDATE` waits for rows that it would pass
/// over otherwise: see `alone.rs`.
pub(super) fn hello(
    connection: i64,
    patience: std::time::Duration,
    silence: std::time::Duration,
) -> Message {
    let seconds = patience.as_secs().max(1);
    let locks = seconds.div_ceil(2);
    let silence = silence.as_secs().clamp(1, 1_000_000) + 1;
    Message::plain(vec![
        format!(
            "SET {CONNECTION} = {connection}, SESSION sql_mode = 'STRICT_ALL_TABLES', \
             SESSION autocommit = 1, SESSION completion_type = 0, \
             SESSION sql_select_limit = 18446744073709551615, SESSION time_zone = '+00:00', \
             SESSION foreign_key_checks = 1, SESSION unique_checks = 1, \
             SESSION sql_safe_updates = 0"
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

/// Reads what any server of the cluster has confirmed before, whichever one is asked.
pub(super) fn wait_for_others() -> Message {
    Message::plain(vec!["SET SESSION wsrep_sync_wait = 1".to_owned()])
}

/// Where in the answer to [`hello`] it is told whether the server can be written to, whether there
/// are no tables, and which server it is.
pub(super) const HELLO_SETTINGS: usize = 3;
pub(super) const HELLO_BARE: usize = 4;
pub(super) const HELLO_SERVER: std::ops::Range<usize> = 5..7;

/// What its entries say of themselves.
pub(super) const QUARANTINED: &[u8] = b"distlock: the database has failed over, or was restored";

/// Tells tables which server it is that have known another one. It may be a replica that was
/// promoted, or a backup, and lack what was confirmed last: sessions that were renewed, holders,
/// numbers that were given. So all sessions live for a whole time more, numbers begin far above all
/// that are known, and for the longest time that any session was to live, [`QUARANTINE`] stands in
/// front of all who join. It is put away as any other that is not renewed.
pub(super) fn recognize(server: &str) -> Message {
    let server = text(server);
    Message::transaction(vec![
        // New tables know of none.
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
        // Those that it does not know are over by then.
        format!(
            "UPDATE distlock_schema SET longest = (SELECT COALESCE(MAX(ttl), 0) \
             FROM distlock_sessions WHERE id <> {QUARANTINE}) WHERE id = 1 AND @distlock_other > 0"
        ),
    ])
}

/// Grants nothing for the longest time that any session was to live.
fn quarantine() -> String {
    format!(
        "INSERT INTO distlock_sessions (id, ttl, expires, clock, beat) \
         SELECT {QUARANTINE}, longest, {NOW} + longest, {CLOCK}, {BEAT} FROM distlock_schema \
         WHERE id = 1 AND longest > 0 AND @distlock_other > 0 \
         ON DUPLICATE KEY UPDATE ttl = GREATEST(distlock_sessions.ttl, longest), \
         expires = {NOW} + distlock_sessions.ttl, beat = {BEAT}"
    )
}

/// Takes the tables of version 1 from the clients of that version, after the last one of them could
/// begin a session (see `schema.rs`): none of their requests finds its session. Their holders give
/// up at their deadlines, or as soon as they learn that their session is gone: before the
/// longest TTL of all of them is over, and until then nothing is granted.
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

/// Reads the epoch of the tables, for what this connection is asked from now on.
pub(super) fn epoch() -> Message {
    Message::plain(vec![format!("SELECT epoch INTO {EPOCH} FROM distlock_schema WHERE id = 1")])
}

/// Deletes what the session has released: a server that is another one than before may have missed
/// that.
pub(super) fn delete(session: i64, tickets: &str) -> Message {
    let own = format!("WHERE session = {session} AND ticket IN ({tickets})");
    Message::plain(vec![
        format!("UPDATE distlock_alone SET session = NULL {own}"),
        format!("DELETE FROM distlock_entries {own}"),
    ])
}

/// Begins a session.
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

/// The name of the lock that the client has that tidies: the server's own, and none on a row.
const TIDYING: &str = "CONCAT('distlock ', SHA1(DATABASE()))";

/// Removes rows of queues that were not used for 20 s: of the next 1,000 of `distlock_alone`,
/// and up to 1,000 of `distlock_queues`, and no other row is locked. No later entry has the number
/// that one of them had: the floor rises in the same transaction, and a join reads it once its
/// queue's row is there again.
///
/// One client tidies at a time. [`tidied`] has to follow, however this ends. Its last statement
/// tells whether there may be more to remove.
pub(super) fn tidy() -> Message {
    let alone = "FROM distlock_alone WHERE queue > @distlock_after";
    let idle = "FROM distlock_queues AS i FORCE INDEX (used) WHERE used < @distlock_before \
                AND NOT EXISTS (SELECT 1 FROM distlock_entries AS e WHERE e.queue = i.queue)";
    Message::transaction(vec![
        // Before the epoch nothing was used.
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
        // Reads without locks, which `SET … = (SELECT …)` does not.
        format!(
            "SELECT GREATEST(@distlock_floor, COALESCE(MAX(number), 0)) INTO @distlock_floor FROM \
             (SELECT number {idle} ORDER BY used LIMIT 1000) AS idle"
        ),
        format!(
            "DELETE q FROM (SELECT queue {idle} AND number <= @distlock_floor \
             ORDER BY used LIMIT 1000 FOR UPDATE SKIP LOCKED) AS idle \
             STRAIGHT_JOIN distlock_queues AS q ON q.queue = idle.queue"
        ),
        "SET @distlock_gone = ROW_COUNT()".to_owned(),
        // Last, as every join reads this row.
        "UPDATE distlock_schema SET floor = GREATEST(floor, @distlock_floor), \
         tidied = IF(@distlock_seen < 1000, '', @distlock_last) \
         WHERE id = 1 AND @distlock_before > 0"
            .to_owned(),
        "SELECT @distlock_before > 0 AND (@distlock_seen = 1000 OR @distlock_gone = 1000)"
            .to_owned(),
    ])
    .tidying()
}

/// Lets others tidy.
pub(super) fn tidied() -> Message {
    Message::plain(vec![format!("DO RELEASE_LOCK({TIDYING})")])
}
