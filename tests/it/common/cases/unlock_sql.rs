//! Releases in user transactions, in the database that stores the lock.

use std::time::Duration;

use distlock::{LockGuard, LostReason, SqlDialect, SqlRelease};
use distlock_testkit::proxy::Mode;

use crate::common::{
    Case, SOON, Servers, Sessions, Waiter, eventually, locked, queue_of,
    raw::Raw,
    sql::{Sql, filled, written},
    take_turn, throughout, within,
};

/// Long enough to notice a release that was not requested.
const PAUSE: Duration = Duration::from_millis(700);

/// A user transaction that writes, and releases the lock at its end.
struct Own {
    sql: Sql,
    key: String,
}

impl Own {
    async fn begin<S: crate::common::Harness + ?Sized>(t: &Case<S>) -> Self {
        Self::begin_by(t, &t.store.url()).await
    }

    async fn begin_by<S: crate::common::Harness + ?Sized>(t: &Case<S>, url: &str) -> Self {
        let mut sql = Sql::connect(url).await;
        let begin = match url.split_once(':') {
            Some(("sqlite", _)) => {
                sql.ask("PRAGMA busy_timeout = 10000").await;
                "BEGIN IMMEDIATE"
            }
            _ => "BEGIN",
        };
        sql.ask(begin).await;
        Self { sql, key: t.data_key("written") }
    }

    async fn write(&mut self, dialect: SqlDialect) {
        let (dir, name) = self.key.rsplit_once('/').expect("a path");
        let place = format!("'{dir}', '{name}'");
        let (table, value) = match dialect {
            SqlDialect::Postgres => ("distlock.data", "'new'"),
            SqlDialect::Sqlite => ("distlock_data", "CAST('new' AS BLOB), 0"),
            _ => ("distlock_data", "'new'"),
        };
        self.sql.ask(&format!("INSERT INTO {table} VALUES ({place}, {value})")).await;
    }

    /// Runs the statement, and returns how many rows it affected.
    async fn release(&mut self, release: &SqlRelease) -> u64 {
        let text = filled(release.text(), release.parameters());
        let reply = self.sql.ask(&text).await;
        assert!(reply.rows.len() as u64 <= reply.changed, "{reply:?}");
        reply.changed
    }

    async fn ends(&mut self, how: &str) {
        self.sql.ask(how).await;
    }
}

/// Gives up the guard: it and its handles are no longer valid.
async fn unlocking(guard: LockGuard) -> SqlRelease {
    let handle = guard.handle();
    assert!(handle.is_valid());
    let release = guard.unlock_sql().expect("a statement");
    assert!(!handle.is_valid(), "the handle is valid although a transaction may release the lock");
    let reason = within(SOON, "the handle is notified", handle.lost()).await;
    assert_eq!(reason, LostReason::Released);
    release
}

/// With and without a waiter of another client. The release value is kept until the commit.
pub(crate) async fn commit_releases_the_lock_and_applies_the_writes(t: &Case) {
    let [client, other] = t.clients().await;
    for waits in [false, true] {
        let guard = locked(&client, "a").await;
        let waiter = waits.then(|| Waiter::of(&other, "a"));
        if waits {
            queue_of(&client, "a", 2).await;
        }
        let mut own = Own::begin(t).await;
        let release = unlocking(guard).await;
        own.write(release.dialect()).await;
        assert_eq!(own.release(&release).await, 1, "the lock was held");
        if let Some(waiter) = &waiter {
            waiter.waits_throughout(PAUSE, "the release is not committed").await;
        }
        own.ends("COMMIT").await;
        match waiter {
            None => t.keys_within(SOON, 0).await,
            Some(waiter) => waiter.granted().await.unlock().await.expect("released"),
        }
        assert_eq!(t.store.data(&own.key).await.as_deref(), Some(&b"new"[..]));
        t.store.erase(&own.key).await;
        if waits {
            release.committed()
        } else {
            drop(release)
        }
        take_turn(&client, "a").await;
    }
}

/// A client that is notified of the commit sends no request. Its own waiters are granted the lock.
pub(crate) async fn waiters_of_the_same_client_are_served(t: &Case) {
    let client = t.client().await;
    for is_notified in [true, false] {
        let guard = locked(&client, "a").await;
        let waiter = Waiter::of(&client, "a");
        queue_of(&client, "a", 2).await;
        let mut own = Own::begin(t).await;
        let release = unlocking(guard).await;
        assert_eq!(own.release(&release).await, 1);
        own.ends("COMMIT").await;
        if is_notified {
            release.committed()
        } else {
            drop(release)
        }
        waiter.granted().await.unlock().await.expect("released");
    }
}

/// The client releases the lock when the value is dropped, and not before.
pub(crate) async fn rolled_back_release_is_made_in_the_background(t: &Case) {
    let [client, other] = t.clients().await;
    let guard = locked(&client, "a").await;
    let mut own = Own::begin(t).await;
    let release = unlocking(guard).await;
    own.write(release.dialect()).await;
    assert_eq!(own.release(&release).await, 1);
    own.ends("ROLLBACK").await;
    let waiter = Waiter::of(&other, "a");
    waiter.waits_throughout(PAUSE, "the release value exists").await;
    drop(release);
    waiter.granted().await.unlock().await.expect("released");
    assert_eq!(t.store.data(&own.key).await, None);
}

/// The statement is never run, or the connection ends within its transaction.
pub(crate) async fn unused_unlock_statement_is_followed_by_a_release(t: &Case) {
    let [client, other] = t.clients().await;
    for begun in [false, true] {
        let guard = locked(&client, "a").await;
        let release = unlocking(guard).await;
        if begun {
            let mut own = Own::begin(t).await;
            assert_eq!(own.release(&release).await, 1);
            drop(own);
        }
        throughout(PAUSE, "the release value exists", async || t.keys().await.len() == 1).await;
        drop(release);
        take_turn(&other, "a").await;
    }
}

/// A release value that is dropped too early grants the lock to no waiter before the transaction
/// commits.
pub(crate) async fn release_that_is_dropped_early_waits_for_the_transaction(t: &Case) {
    let [client, other] = t.clients().await;
    let guard = locked(&client, "a").await;
    let waiter = Waiter::of(&other, "a");
    queue_of(&client, "a", 2).await;
    let mut own = Own::begin(t).await;
    let release = unlocking(guard).await;
    own.write(release.dialect()).await;
    assert_eq!(own.release(&release).await, 1);
    drop(release);
    waiter.waits_throughout(PAUSE, "the release is not committed").await;
    own.ends("COMMIT").await;
    waiter.granted().await.unlock().await.expect("released");
    t.store.erase(&own.key).await;
    // Dropped before the statement runs, which then affects no row.
    let release = unlocking(locked(&client, "a").await).await;
    let text = filled(release.text(), release.parameters());
    drop(release);
    t.keys_within(SOON, 0).await;
    let mut own = Own::begin(t).await;
    assert_eq!(own.sql.ask(&text).await.changed, 0, "the lock was released before");
    own.ends("ROLLBACK").await;
}

/// An operator has deleted the key. Another client may have been granted the lock since.
pub(crate) async fn statement_of_an_evicted_holder_affects_no_row(t: &Case) {
    let [client, other] = t.clients().await;
    for successor in [false, true] {
        let guard = locked(&client, "a").await;
        let key = guard.key().to_owned();
        let release = unlocking(guard).await;
        t.store.delete_key(&key).await;
        let next = match successor {
            true => Some(locked(&other, "a").await),
            false => None,
        };
        let mut own = Own::begin(t).await;
        assert_eq!(own.release(&release).await, 0, "the entry was deleted");
        own.ends("ROLLBACK").await;
        drop(release);
        if let Some(next) = next {
            throughout(PAUSE, "the successor holds the lock", async || next.is_valid()).await;
            assert_eq!(t.keys().await, [next.key()]);
            next.unlock().await.expect("released");
        }
    }
    // A guard that is known to be lost returns no statement.
    let guard = locked(&client, "a").await;
    t.store.delete_key(guard.key()).await;
    eventually(SOON, "the holder is notified", async || !guard.is_valid()).await;
    let error = guard.unlock_sql().expect_err("the lock is lost");
    assert!(matches!(error, distlock::Error::Lost { .. }), "{error:?}");
}

/// Through distlock's own driver functions.
pub(crate) async fn each_driver_releases(t: &Case) {
    let client = t.client().await;
    let (mut raw, key) = (Raw::connect(&t.store.url(), &t.namespace).await, t.data_key("driven"));
    let release = unlocking(locked(&client, "it's \\ a").await).await;
    assert!(raw.put_and_unlock(&release, &key, "new").await);
    release.committed();
    t.keys_within(SOON, 0).await;
    assert_eq!(t.store.data(&key).await.as_deref(), Some(&b"new"[..]));
    let guard = locked(&client, "b").await;
    let held = guard.key().to_owned();
    let release = unlocking(guard).await;
    t.store.delete_key(&held).await;
    assert!(!raw.put_and_unlock(&release, &key, "newer").await, "the entry was deleted");
    assert_eq!(t.store.data(&key).await.as_deref(), Some(&b"new"[..]));
    t.store.erase(&key).await;
}

/// The maximum hold time ends the hold even if the release value is kept.
pub(crate) async fn max_hold_ends_a_hold_that_no_transaction_releases(t: &Case) {
    let [client, other] = t.clients().await;
    let held = client.mutex("a").max_hold(Duration::from_millis(1500));
    let guard = within(SOON, "the lock is granted", held.lock()).await.expect("granted");
    let release = unlocking(guard).await;
    throughout(PAUSE, "the release value exists", async || t.keys().await.len() == 1).await;
    take_turn(&other, "a").await;
    let mut own = Own::begin(t).await;
    assert_eq!(own.release(&release).await, 0);
    own.ends("ROLLBACK").await;
}

/// The connection is cut during the commit, which may or may not have been applied.
pub(crate) async fn release_with_unconfirmed_commit_is_completed(t: &Case<dyn Servers>) {
    let proxies = t.proxies().await;
    let (client, other) = (t.client().await, t.client().await);
    for (mode, done) in [(Mode::SwallowReply, true), (Mode::Refuse, false)] {
        proxies.set(&Mode::Pass);
        let guard = locked(&client, "a").await;
        let waiter = Waiter::of(&other, "a");
        queue_of(&client, "a", 2).await;
        let mut own = Own::begin_by(t, &proxies.url()).await;
        let release = unlocking(guard).await;
        own.write(release.dialect()).await;
        assert_eq!(own.release(&release).await, 1);
        proxies.set(&mode);
        if !done {
            let is_cut = async || proxies.all.iter().all(|proxy| proxy.connections() == 0);
            eventually(SOON, "the connection is cut", is_cut).await;
        }
        let committed = within(SOON, "the commit returns", own.sql.run("COMMIT")).await;
        committed.expect_err("the connection was cut");
        drop(release);
        waiter.granted().await.unlock().await.expect("released");
        let written = t.store.data(&own.key).await;
        assert_eq!(written.is_some(), done, "{mode:?}");
        t.store.erase(&own.key).await;
    }
}

/// Another transaction has checked the lock and writes under it. The release waits for it.
pub(crate) async fn unlock_statement_waits_for_checked_transactions(t: &Case<dyn Servers>) {
    let client = t.client().await;
    for waits in [false, true] {
        let guard = locked(&client, "a").await;
        let waiter = waits.then(|| Waiter::of(&client, "a"));
        if waits {
            queue_of(&client, "a", 2).await;
        }
        let mut checked = Own::begin(t).await;
        let check = written(&guard.sql().expect("a check"));
        assert_eq!(checked.sql.ask(&check).await.rows, ["1"]);
        let mut own = Own::begin(t).await;
        let release = unlocking(guard).await;
        {
            let releasing = own.release(&release);
            tokio::pin!(releasing);
            let early = tokio::time::timeout(PAUSE, &mut releasing).await;
            assert!(early.is_err(), "the lock was released during the other transaction");
            checked.ends("COMMIT").await;
            assert_eq!(within(SOON, "the lock is released afterwards", releasing).await, 1);
        }
        own.ends("COMMIT").await;
        release.committed();
        if let Some(waiter) = waiter {
            waiter.granted().await.unlock().await.expect("released");
        }
    }
}

/// A session is renewed continually. The statement also works in a snapshot from before the last
/// renewal.
pub(crate) async fn concurrent_renewals_do_not_fail_the_unlock_statement(t: &Case<dyn Sessions>) {
    let client = t.client().await;
    let guard = locked(&client, "a").await;
    let session = t.store.session_of(guard.key()).await;
    let mut own = Sql::connect(&t.store.url()).await;
    let mut operator = Sql::connect(&t.store.url()).await;
    let release = unlocking(guard).await;
    let (begin, sessions) = match release.dialect() {
        SqlDialect::Postgres => ("BEGIN ISOLATION LEVEL REPEATABLE READ", "distlock.sessions"),
        _ => ("BEGIN", "distlock_sessions"),
    };
    own.ask(begin).await;
    own.ask(&format!("SELECT id FROM {sessions} WHERE id = {session}")).await;
    let renew = format!("UPDATE {sessions} SET beat = beat + 1 WHERE id = {session}");
    assert_eq!(operator.ask(&renew).await.changed, 1);
    let text = filled(release.text(), release.parameters());
    let reply = within(SOON, "the statement returns", own.run(&text)).await.expect("not refused");
    assert_eq!(reply.changed, 1);
    // No renewal waits for the transaction.
    within(SOON, "the session is renewed", operator.ask(&renew)).await;
    own.ask("COMMIT").await;
    release.committed();
}
