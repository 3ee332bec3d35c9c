//! The tables and their databases.

use distlock::Error;

use super::place::{CROWD, Own};
use crate::common::{
    cases::versions::Change,
    close,
    database::{Database, Dialect, Tables},
    database_cases, locked, reason, take_turn,
};

pub(super) static DIALECT: Dialect = Dialect {
    version: 2,
    prefix: "distlock.",
    empty: &["sessions", "entries", "watches"],
    queues: &["queues"],
    age: "UPDATE distlock.queues SET since = now() - interval '2 days'; \
          UPDATE distlock.schema SET tidied_at = now() - interval '2 days'",
    values: "SELECT convert_from(value, 'UTF8') FROM distlock.data",
    name: "'; DROP SCHEMA distlock; --\\",
    change: Change {
        version: "SELECT version FROM distlock.schema",
        begin: &["BEGIN; UPDATE distlock.schema SET version = version + 1; \
             ALTER TABLE distlock.sessions RENAME TO sessions_of_before; COMMIT"],
        undo: &["BEGIN; UPDATE distlock.schema SET version = version - 1; \
             ALTER TABLE distlock.sessions_of_before RENAME TO sessions; COMMIT"],
        lives: |session| {
            let lives = "SELECT id FROM distlock.sessions_of_before WHERE expires > now()";
            format!("{lives} AND id = {session}")
        },
        entries: "SELECT queue || number || label FROM distlock.entries ORDER BY number",
    },
    use_queues: |first, last| {
        format!(
            "INSERT INTO distlock.queues (queue, number) \
             SELECT '/of late/' || n, n FROM generate_series({first}, {last}) AS n"
        )
    },
    dead: || {
        "INSERT INTO distlock.sessions (id, ttl, expires) VALUES (7, '2 s', now() + '2 s')".into()
    },
    crowd: CROWD,
    hold: |session, locks| {
        let half = locks / 2;
        let entry = format!("nextval('distlock.numbers'), {session}, gen_random_uuid(), '', ''");
        format!(
            "INSERT INTO distlock.queues (queue, number, session, ticket, label, value) \
             SELECT '/distlock/crowd-' || n, {entry} FROM generate_series(1, {half}) AS n; \
             INSERT INTO distlock.queues (queue, crowded) \
             SELECT '/distlock/crowd-' || n, true FROM generate_series({half} + 1, {locks}) AS n; \
             INSERT INTO distlock.entries (queue, number, session, ticket, label, value) \
             SELECT '/distlock/crowd-' || n, {entry} FROM generate_series({half} + 1, {locks}) AS n"
        )
    },
    of_session: |session| {
        format!(
            "SELECT id FROM distlock.sessions WHERE id = {session} UNION ALL \
             SELECT number FROM distlock.entries WHERE session = {session}"
        )
    },
};

database_cases! { Own,
    tables::first_client_creates_the_tables,
    tables::tables_of_another_version_are_refused_by_name,
    tables::connected_clients_notice_newer_tables,
    tables::tokens_rise_over_the_end_of_a_queue,
    tables::client_that_stays_removes_idle_queues,
    tables::many_recent_queues_do_not_block_connecting,
    tables::names_with_quotes_are_names,
    crowded_sessions::locks_of_a_dead_client_are_free_however_many,
    crowded_sessions::locks_of_a_closed_client_are_free_however_many,
}

/// The SQL printed for operators creates the same tables as a client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_created_by_an_operator_are_used() {
    let database = Own::new().await;
    database.ask(distlock::postgres::schema()).await;
    let error = database.connect().await.expect_err("the user has no rights");
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    database
        .ask(
            "GRANT USAGE ON SCHEMA distlock TO app; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA distlock TO app; \
             GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA distlock TO app",
        )
        .await;
    let client = database.client().await;
    take_turn(&client, "a").await;
    close([client]).await;
    database.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_database_is_refused_by_name() {
    let database = Own::new().await;
    database
        .ask(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only \
             = on', current_database()); END $$",
        )
        .await;
    let error = database.connect().await.expect_err("nothing can be written");
    assert!(reason(&error).contains("read-only"), "{}", reason(&error));
    database.end().await;
}

/// A copy of the tables may lack their sequence, or some of the rows. Only one of them has the
/// highest number, which is above the server's clock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_of_a_copy_continue_above_all_that_it_has() {
    /// In microseconds, in the year 2128.
    const HIGHEST: u64 = 5_000_000_000_000_000;
    let database = Own::new().await;
    let client = database.client().await;
    for (place, highest) in [
        ("sequence", format!("SELECT setval('distlock.numbers', {HIGHEST})")),
        (
            "queues",
            format!("INSERT INTO distlock.queues (queue, number) VALUES ('/x/y', {HIGHEST})"),
        ),
        (
            "entries",
            format!(
                "INSERT INTO distlock.entries (queue, number, session, ticket, label, value) \
                 VALUES ('/x/y', {HIGHEST}, 7, gen_random_uuid(), '', '')"
            ),
        ),
    ] {
        database
            .ask(
                "ALTER SEQUENCE distlock.numbers RESTART; DELETE FROM distlock.queues; \
                 DELETE FROM distlock.entries",
            )
            .await;
        database.ask(&highest).await;
        database.ask("SELECT distlock.skip_numbers()").await;
        let guard = locked(&client, place).await;
        let token = guard.fencing_token().as_u64();
        assert!(token > HIGHEST + 100_000_000, "{place}: {token}");
        guard.unlock().await.expect("released");
    }
    close([client]).await;
    database.end().await;
}
