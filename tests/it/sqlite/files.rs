//! The database file: created, shared, replaced, deleted, and of another version.

use std::{fs, os::unix::fs::symlink, time::Duration};

use distlock::{Client, Error, LostReason};
use rusqlite::Connection;

use crate::common::{
    SOON, Waiter,
    cases::versions::Change,
    clients, close, connected, contended, eventually, locked, queue_of, reason, refused,
    sqlite::{Folder, dial, now, url},
    take_turn, within,
};

const FILE: &str = "locks.db";

async fn connect(url: &str) -> Client {
    connected(Client::builder(url)).await
}

fn query(connection: &Connection, sql: &str) -> Vec<i64> {
    let mut statement = connection.prepare(sql).expect("valid SQL");
    let rows = statement.query_map([], |row| row.get(0)).expect("a result");
    rows.collect::<Result<_, _>>().expect("numbers")
}

/// Each client uses another name of the folder, so it has its own connection, as another process
/// has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_client_creates_the_tables() {
    let folder = Folder::new();
    let ways = (0..8).map(|way| folder.path(&format!("way-{way}")));
    let urls: Vec<_> = ways.inspect(|way| symlink(".", way).expect("a link")).collect();
    let connecting = urls.iter().map(|way| async { connect(&url(&way.join(FILE))).await });
    let clients = futures_util::future::join_all(connecting).await;
    let mut tokens = Vec::new();
    for client in &clients {
        let guard = client.mutex("a").lock().await.expect("granted");
        tokens.push(guard.fencing_token());
        guard.unlock().await.expect("released");
    }
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    close(clients).await;
    let file = dial(&folder.path(FILE));
    assert_eq!(query(&file, "SELECT version FROM distlock_meta"), [1]);
    for table in ["sessions", "entries", "data"] {
        assert!(query(&file, &format!("SELECT 1 FROM distlock_{table}")).is_empty(), "{table}");
    }
}

/// Waiters in other processes notice a release long before their next recheck.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_is_noticed_by_other_connections() {
    let folder = Folder::new();
    symlink(".", folder.path("way")).expect("a link");
    let [one, two] = [connect(&folder.url(FILE)).await, connect(&folder.url("way/locks.db")).await];
    let mut guard = one.mutex("a").lock().await.expect("granted");
    for (next, last) in [(&two, &one), (&one, &two), (&two, &one)] {
        let waiter = Waiter::of(next, "a");
        queue_of(last, "a", 2).await;
        guard.unlock().await.expect("released");
        guard = waiter.result(SOON / 2).await.expect("the release is noticed");
    }
    guard.unlock().await.expect("released");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_created_by_an_operator_work_next_to_other_tables() {
    let folder = Folder::new();
    let file = Connection::open(folder.path(FILE)).expect("the file opens");
    file.execute_batch(distlock::sqlite::schema()).expect("created");
    file.execute_batch("CREATE TABLE account (balance); INSERT INTO account VALUES (7)")
        .expect("created");
    drop(file);
    let client = connect(&folder.url(FILE)).await;
    take_turn(&client, "a").await;
    client.close().await.expect("closed");
    assert_eq!(query(&dial(&folder.path(FILE)), "SELECT balance FROM account"), [7]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_a_later_version_is_refused_and_left_alone() {
    let folder = Folder::new();
    let file = dial(&folder.path(FILE));
    file.execute_batch(
        "CREATE TABLE distlock_meta (version INTEGER NOT NULL, more TEXT); \
         INSERT INTO distlock_meta VALUES (2, 'unknown')",
    )
    .expect("created");
    let error = refused(Client::builder(folder.url(FILE))).await;
    assert!(matches!(error, Error::Backend { .. }), "{error:?}");
    assert!(reason(&error).contains("version 2"), "{}", reason(&error));
    assert_eq!(query(&file, "SELECT count(*) FROM sqlite_master"), [1], "tables were created");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connected_clients_notice_newer_tables() {
    let folder = Folder::new();
    let change = Change {
        version: "SELECT version FROM distlock_meta",
        begin: &[
            "PRAGMA busy_timeout = 10000",
            "BEGIN IMMEDIATE",
            "UPDATE distlock_meta SET version = version + 1",
            "ALTER TABLE distlock_sessions RENAME TO distlock_sessions_of_before",
            "COMMIT",
        ],
        undo: &[
            "BEGIN IMMEDIATE",
            "UPDATE distlock_meta SET version = version - 1",
            "ALTER TABLE distlock_sessions_of_before RENAME TO distlock_sessions",
            "COMMIT",
        ],
        lives: |session| {
            let lives = "SELECT id FROM distlock_sessions_of_before WHERE id";
            format!("{lives} = {session} AND expires > {}", now())
        },
        entries: "SELECT queue || number || label FROM distlock_entries ORDER BY number",
    };
    change.is_noticed(&folder.url(FILE)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_are_no_lock_store_are_refused() {
    let folder = Folder::new();
    fs::create_dir(folder.path("sub")).expect("created");
    fs::write(folder.path("text"), "This is a text, and no database. ".repeat(100))
        .expect("created");
    fs::write(folder.path("one"), "").expect("created");
    fs::hard_link(folder.path("one"), folder.path("other")).expect("created");
    for (name, what) in
        [("sub", "not a regular file"), ("text", "not a database"), ("one", "hard links")]
    {
        let error = refused(Client::builder(folder.url(name))).await;
        assert!(matches!(error, Error::Backend { .. }), "{name}: {error:?}");
        assert!(reason(&error).contains(what), "{name}: {}", reason(&error));
    }
    let error = refused(Client::builder(folder.url("none/locks.db"))).await;
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(!folder.path("none").exists(), "a directory was created");
}

/// The host was rebooted, and its clock shows less than before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_of_another_boot_have_expired() {
    let folder = Folder::new();
    close([connect(&folder.url(FILE)).await]).await;
    let file = dial(&folder.path(FILE));
    let hour = 3_600_000;
    let sql = format!(
        "INSERT INTO distlock_sessions VALUES (7, 'another', {hour}, {}); \
         UPDATE distlock_meta SET number = 99; \
         INSERT INTO distlock_entries VALUES \
         ('/distlock/a', 99, 7, 'x', '', x'00', 1, 99, 0)",
        now() + hour
    );
    file.execute_batch(&sql).expect("written");
    let client = connect(&folder.url(FILE)).await;
    let guard = locked(&client, "a").await;
    assert!(guard.fencing_token().as_u64() > 99, "{guard:?}");
    guard.unlock().await.expect("released");
}

/// The holder is notified, and the new file's data stays intact.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_was_replaced_is_lost() {
    let folder = Folder::new();
    let other = Connection::open(folder.path("other.db")).expect("the file opens");
    other.execute_batch(distlock::sqlite::schema()).expect("created");
    drop(other);
    let client = clients::connect(&folder.url(FILE), Duration::from_secs(30)).await;
    let (guard, waiter) = contended(&client, &client, "a").await;
    queue_of(&client, "a", 2).await;
    for part in ["locks.db-wal", "locks.db-shm"] {
        fs::remove_file(folder.path(part)).expect("deleted");
    }
    fs::rename(folder.path("other.db"), folder.path(FILE)).expect("renamed");
    // A waiter polls all the time, so the loss is noticed long before the session's deadline.
    let reason = within(SOON, "the holder is notified", guard.lost()).await;
    assert_eq!(reason, LostReason::SessionExpired);
    let waited = waiter.result(SOON).await;
    assert!(matches!(waited, Err(Error::SessionLost { .. })), "{waited:?}");
    // The queue in the new file is empty.
    let guard = locked(&client, "a").await;
    let file = dial(&folder.path(FILE));
    assert_eq!(query(&file, "SELECT count(*) FROM distlock_entries"), [1]);
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
}

/// A client that closes the first file keeps the files of the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releasing_a_replaced_file_leaves_the_new_one_alone() {
    let folder = Folder::new();
    symlink(".", folder.path("way")).expect("a link");
    let first = connect(&folder.url("way/locks.db")).await;
    let guard = first.mutex("a").lock().await.expect("granted");
    for part in ["locks.db", "locks.db-wal", "locks.db-shm"] {
        fs::rename(folder.path(part), folder.path(&format!("old-{part}"))).expect("renamed");
    }
    let second = connect(&folder.url(FILE)).await;
    let kept = second.mutex("a").lock().await.expect("granted");
    drop(guard);
    let _ = first.close().await;
    drop(first);
    eventually(SOON, "the first file is closed", async || {
        distlock::sqlite::requests(folder.path("way/locks.db")).is_none()
    })
    .await;
    assert!(folder.path("locks.db-wal").exists(), "the new file's WAL was deleted");
    assert_eq!(query(&dial(&folder.path(FILE)), "SELECT count(*) FROM distlock_entries"), [1]);
    kept.unlock().await.expect("released");
    second.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_away_for_a_while_is_unavailable() {
    let folder = Folder::new();
    let builder = Client::builder(folder.url(FILE)).session_ttl(Duration::from_secs(30));
    let client = connected(builder.request_timeout(Duration::from_secs(1))).await;
    let guard = client.mutex("a").lock().await.expect("granted");
    fs::rename(folder.path(FILE), folder.path("away")).expect("renamed");
    let error = client.ping().await.expect_err("there is no file");
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(!folder.path(FILE).exists(), "a second file was created");
    fs::rename(folder.path("away"), folder.path(FILE)).expect("renamed");
    client.ping().await.expect("the file is back");
    assert!(guard.is_valid());
    guard.unlock().await.expect("released");
}

/// The locks expire with the deadline, and then a new file may be created.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_file_is_created_again_after_its_sessions_expire() {
    let folder = Folder::new();
    let client = clients::connect(&folder.url(FILE), Duration::from_secs(2)).await;
    let guard = client.mutex("a").lock().await.expect("granted");
    for part in ["locks.db", "locks.db-wal", "locks.db-shm"] {
        fs::remove_file(folder.path(part)).expect("deleted");
    }
    let reason = within(SOON, "the holder is notified", guard.lost()).await;
    assert_eq!(reason, LostReason::DeadlinePassed);
    let mut granted = None;
    eventually(SOON, "there is a new file", async || {
        granted = client.mutex("a").lock().await.ok();
        granted.is_some()
    })
    .await;
    assert!(folder.path(FILE).exists());
    granted.expect("granted").unlock().await.expect("released");
}

/// A long reader prevents the WAL from being reused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wal_that_a_long_reader_made_grow_shrinks_again() {
    let folder = Folder::new();
    let client = connect(&folder.url(FILE)).await;
    let guard = client.mutex("a").lock().await.expect("granted");
    let reader = dial(&folder.path(FILE));
    reader.execute_batch("BEGIN; SELECT * FROM distlock_sessions").expect("begun");
    let size = || fs::metadata(folder.path("locks.db-wal")).expect("a WAL").len();
    let write = async |rounds: u8| {
        for round in 0..rounds {
            // SQLite skips writes of unchanged values.
            guard.put("/data/a", vec![round; 512 << 10]).await.expect("written");
        }
    };
    write(50).await;
    assert!(size() > 20 << 20, "{}", size());
    reader.execute_batch("COMMIT").expect("ended");
    eventually(SOON, "the WAL shrinks", async || {
        write(2).await;
        size() <= 8 << 20
    })
    .await;
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
}

/// Ending a session is retried repeatedly, as on a full disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_cannot_be_ended_now_is_ended_later() {
    let folder = Folder::new();
    let client = connect(&folder.url(FILE)).await;
    take_turn(&client, "a").await;
    let operator = dial(&folder.path(FILE));
    let rename = |from: &str, to: &str| {
        operator.execute(&format!("ALTER TABLE {from} RENAME TO {to}"), []).expect("renamed")
    };
    rename("distlock_sessions", "away");
    let writes = || distlock::sqlite::requests(folder.path(FILE)).map(|requests| requests.writes);
    let before = writes().expect("the file is open");
    let closing = tokio::spawn(async move { client.close().await });
    eventually(SOON, "closing is tried twice", async || {
        assert!(!closing.is_finished(), "closing has ended");
        writes().is_some_and(|writes| writes >= before + 2)
    })
    .await;
    rename("away", "distlock_sessions");
    within(SOON, "the client closes", closing).await.expect("no panic").expect("closed");
    assert!(query(&operator, "SELECT id FROM distlock_sessions").is_empty());
}
