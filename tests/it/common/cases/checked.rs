//! Checks in user transactions, in the database that stores the lock.

use std::time::Duration;

use distlock::{CheckError, Client, LockGuard, SqlDialect};
use distlock_testkit::proxy::Mode;

use crate::common::{
    Case, Elsewhere, Job, SOON, Servers, Sessions, Waiter, eventually,
    process::Process,
    raw::Raw,
    sql::{Sql, written},
    within,
};

/// The process is paused beyond its TTL. Its lock has no successor, and its session has not been
/// removed.
pub(crate) async fn writes_of_a_stopped_holder_without_successor_are_refused(t: &Case) {
    let ttl = t.store.min_ttl();
    let job = Job { writes: 20, ..Job::new(t, "stopped", ttl) };
    let keys: Vec<_> = (0..job.writes).map(|n| job.key(n)).collect();
    let mut process = Process::start(&t.store.url(), &job);
    within(SOON * 2, "the process has its locks and has written", process.granted()).await;
    let written = process.sleep_through(ttl + ttl / 2).await;
    assert!(!written, "the database accepted a write of an expired session");
    drop(process);
    for key in &keys {
        assert_eq!(t.store.data(key).await.as_deref(), Some(&b"old"[..]));
        t.store.erase(key).await;
    }
    // The next acquire removes the expired session.
    for n in 0..keys.len() {
        let next = t.client().await.mutex(format!("stopped-{n}")).lock_timeout(SOON).await;
        next.expect("a reply").expect("granted").unlock().await.expect("released");
    }
}

/// Through distlock's own driver function, and by the text of the check alone.
pub(crate) async fn every_guard_can_be_checked(t: &Case) {
    let client = t.client().await;
    let mut own = Own { raw: Raw::connect(&t.store.url(), &t.namespace).await, sql: sql(t).await };
    let key = t.data_key("checked");
    let mutex = client.mutex("it's \\ a").lock().await.expect("granted");
    let [one, two] = [client.rw_lock("b"), client.rw_lock("b")];
    let (reader, other) = tokio::join!(one.read(), two.read());
    let readers = [reader, other].map(|reader| reader.expect("granted"));
    let writer = client.rw_lock("c").write().await.expect("granted");
    let permit = client.semaphore("d", 2).acquire().await.expect("granted");
    let leader = client.election("e").campaign("me").await.expect("granted");
    let all = client.lock_all(["f", "g"]).await.expect("granted");
    let mut guards: Vec<&LockGuard> = vec![&mutex, &readers[0], &readers[1], &writer, &permit];
    guards.extend([&*leader]);
    guards.extend(all.guards());
    for guard in guards {
        own.writes(guard, &key, true).await;
    }
    let both = all.sql().expect("a check");
    assert_eq!(own.sql.ask(&written(&both)).await.rows, ["1"]);
    t.store.delete_key(all.guards()[1].key()).await;
    assert!(own.sql.ask(&written(&both)).await.rows.is_empty(), "one of the entries is deleted");
    let downgraded = writer.downgrade().await.expect("a reader");
    own.writes(&downgraded, &key, true).await;
    // The entry has been deleted, and the client has not been notified yet.
    t.store.delete_key(mutex.key()).await;
    own.writes(&mutex, &key, false).await;
    // SQLite cannot join the tables of this many checks.
    let many = client.lock_all((0..40).map(|number| number.to_string())).await.expect("granted");
    let check = written(&many.sql().expect("a check"));
    assert_eq!(own.sql.ask(&check).await.rows, ["1"]);
    t.store.delete_key(many.guards()[39].key()).await;
    assert!(own.sql.ask(&check).await.rows.is_empty(), "the last of the entries is deleted");
    let permit_was = permit.sql().expect("a check");
    permit.release().await.expect("released");
    assert!(own.sql.ask(&written(&permit_was)).await.rows.is_empty());
    t.store.erase(&key).await;
}

/// A user's connections, one by each way.
struct Own {
    raw: Raw,
    sql: Sql,
}

impl Own {
    /// Expects the same result of both ways.
    async fn writes(&mut self, guard: &LockGuard, key: &str, held: bool) {
        let check = written(&guard.sql().expect("a check"));
        assert_eq!(self.sql.ask(&check).await.rows.len(), usize::from(held), "{guard:?}");
        assert_eq!(self.raw.put(guard, key, guard.name()).await, held, "{guard:?}");
    }
}

async fn sql(t: &Case) -> Sql {
    let mut sql = Sql::connect(&t.store.url()).await;
    if matches!(t.store.url().split_once(':'), Some(("sqlite", _))) {
        sql.ask("PRAGMA busy_timeout = 10000").await;
    }
    sql
}

/// The checked transaction writes under the lock until it ends, however long it takes.
pub(crate) async fn a_transaction_that_has_checked_keeps_the_lock_until_it_ends(
    t: &Case<dyn Servers>,
) {
    let proxies = t.proxies().await;
    let (client, other) = (t.mortal_client_by(&*proxies).await, t.client().await);
    let guard = client.mutex("a").lock().await.expect("granted");
    let check = written(&guard.sql().expect("a check"));
    let mut own = sql(t).await;
    own.ask("BEGIN").await;
    assert_eq!(own.ask(&check).await.rows, ["1"]);
    let waiter = Waiter::of(&other, "a");
    proxies.set(&Mode::Refuse);
    waiter.waits_throughout(t.store.min_ttl() * 3, "the next client waits").await;
    assert!(!guard.is_valid(), "the holder has lost the lock");
    own.ask("COMMIT").await;
    let next = waiter.result(SOON).await;
    assert!(own.ask(&check).await.rows.is_empty(), "the entry is deleted");
    next.expect("granted").unlock().await.expect("released");
    drop(guard);
}

/// The row of the expired session still exists, since no client has removed it.
pub(crate) async fn expired_session_fails_the_check(t: &Case<dyn Sessions>) {
    let guard = t.client().await.mutex("a").lock().await.expect("granted");
    let check = guard.sql().expect("a check");
    let (begin, sessions) = match check.dialect() {
        SqlDialect::Postgres => ("BEGIN", "distlock.sessions"),
        SqlDialect::Sqlite => ("BEGIN IMMEDIATE", "distlock_sessions"),
        _ => ("BEGIN", "distlock_sessions"),
    };
    let mut own = sql(t).await;
    own.ask(begin).await;
    assert_eq!(own.ask(&written(&check)).await.rows, ["1"]);
    // Sets the expiry to the time of the last renewal. No renewal happens while the transaction is
    // open.
    let session = t.store.session_of(guard.key()).await;
    let over = format!("UPDATE {sessions} SET expires = expires - ttl WHERE id = {session}");
    assert_eq!(own.ask(&over).await.changed, 1);
    assert!(own.ask(&written(&check)).await.rows.is_empty(), "the session has expired");
    own.ask("ROLLBACK").await;
    assert_eq!(own.ask(&written(&check)).await.rows, ["1"]);
    guard.unlock().await.expect("released");
}

/// An operator's delete waits for a transaction that has checked the lock.
pub(crate) async fn a_transaction_that_has_checked_keeps_the_entry(t: &Case) {
    let client = t.client().await;
    let guard = client.mutex("a").lock().await.expect("granted");
    let mut own = sql(t).await;
    own.ask("BEGIN").await;
    let check = written(&guard.sql().expect("a check"));
    assert_eq!(own.ask(&check).await.rows, ["1"]);
    let deleting = t.store.delete_key(guard.key());
    tokio::pin!(deleting);
    let early = tokio::time::timeout(Duration::from_millis(500), &mut deleting).await;
    assert!(early.is_err(), "the entry was deleted during the transaction");
    own.ask("COMMIT").await;
    within(SOON, "the entry is deleted afterwards", deleting).await;
    eventually(SOON, "the holder is notified", async || !guard.is_valid()).await;
}

/// A transaction that has checked several locks keeps all their entries.
pub(crate) async fn one_query_checks_several_locks(t: &Case) {
    let client = t.client().await;
    let mut own = sql(t).await;
    for lost in ["alice", "bob", "carol"] {
        let all = client.lock_all(["alice", "bob", "carol"]).await.expect("granted");
        own.ask("BEGIN").await;
        let check = written(&all.sql().expect("a check"));
        assert_eq!(own.ask(&check).await.rows, ["1"]);
        let key = all.get(lost).expect("one of the locks").key();
        let deleting = t.store.delete_key(key);
        tokio::pin!(deleting);
        let early = tokio::time::timeout(Duration::from_millis(300), &mut deleting).await;
        assert!(early.is_err(), "{lost} was deleted during the transaction");
        own.ask("ROLLBACK").await;
        within(SOON, "the entry is deleted afterwards", deleting).await;
        assert!(own.ask(&check).await.rows.is_empty(), "the entry of {lost} is deleted");
    }
}

/// The check fails without a query if the guard belongs to another store.
pub(crate) async fn guards_of_other_stores_are_refused_by_name(t: &Case) {
    let memory = Client::connect("memory://checked-elsewhere").await.expect("connected");
    let guard = memory.mutex("a").lock().await.expect("granted");
    assert!(guard.sql().is_none());
    let (text, queried) = match Raw::connect(&t.store.url(), &t.namespace).await {
        #[cfg(feature = "mysql")]
        Raw::Mysql(mut connection) => {
            let begun = connection.start_transaction(mysql_async::TxOpts::default()).await;
            let mut transaction = begun.expect("begun");
            refused(distlock::mysql::check(&guard, &mut transaction).await)
        }
        #[cfg(feature = "postgres")]
        Raw::Postgres(mut connection) => {
            let transaction = connection.transaction().await.expect("begun");
            refused(distlock::postgres::check(&guard, &transaction).await)
        }
        #[cfg(feature = "sqlite")]
        Raw::Sqlite(mut connection) => {
            let transaction = connection.transaction().expect("begun");
            refused(distlock::sqlite::check(&guard, &transaction))
        }
        #[cfg(any(feature = "etcd", feature = "redis", feature = "zookeeper"))]
        _ => panic!("no SQL: {}", t.store.url()),
    };
    assert!(text.contains("is stored on memory: no SQL transaction"), "{text}");
    let url = t.store.url();
    let (scheme, _) = url.split_once(':').expect("a scheme");
    assert!(queried.to_string().to_lowercase().starts_with(scheme), "{queried} at {url}");
    guard.unlock().await.expect("released");
}

fn refused<E: std::fmt::Debug + std::error::Error>(
    checked: Result<(), CheckError<E>>,
) -> (String, SqlDialect) {
    let error = checked.expect_err("a guard of another store");
    let CheckError::OtherStore { asked: queried, .. } = &error else { panic!("{error:?}") };
    (error.to_string(), *queried)
}
