//! Transactions of a user's own, in the database that the lock is in.

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

/// As one who was stopped and has a successor, but nobody has come.
pub(crate) async fn writes_of_a_stopped_holder_without_successor_are_refused(t: &Case) {
    let ttl = t.store.min_ttl();
    let job = Job { writes: 20, ..Job::new(t, "stopped", ttl) };
    let keys: Vec<_> = (0..job.writes).map(|n| job.key(n)).collect();
    let mut process = Process::start(&t.store.url(), &job);
    within(SOON * 2, "the process has its locks and has written", process.granted()).await;
    let written = process.sleep_through(ttl + ttl / 2).await;
    assert!(!written, "the database took a write of a session that is over");
    drop(process);
    for key in &keys {
        assert_eq!(t.store.data(key).await.as_deref(), Some(&b"old"[..]));
        t.store.erase(key).await;
    }
    // Somebody has to put it away.
    for n in 0..keys.len() {
        let next = t.client().await.mutex(format!("stopped-{n}")).lock_timeout(SOON).await;
        next.expect("an answer").expect("granted").unlock().await.expect("released");
    }
}

/// With the driver that distlock has itself, and by the text alone.
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
    assert!(own.sql.ask(&written(&both)).await.rows.is_empty(), "one of them is gone");
    let downgraded = writer.downgrade().await.expect("a reader");
    own.writes(&downgraded, &key, true).await;
    // Somebody has deleted it, and nobody has told.
    t.store.delete_key(mutex.key()).await;
    own.writes(&mutex, &key, false).await;
    let permit_was = permit.sql().expect("a check");
    permit.release().await.expect("released");
    assert!(own.sql.ask(&written(&permit_was)).await.rows.is_empty());
    t.store.erase(&key).await;
}

/// A user's connections.
struct Own {
    raw: Raw,
    sql: Sql,
}

impl Own {
    /// Both ways say the same.
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

/// What it writes is written under the lock, however long it takes.
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
    waiter.waits_throughout(t.store.min_ttl() * 3, "the next one waits").await;
    assert!(!guard.is_valid(), "its holder has given up");
    own.ask("COMMIT").await;
    let next = waiter.result(SOON).await;
    assert!(own.ask(&check).await.rows.is_empty(), "the entry has gone");
    next.expect("granted").unlock().await.expect("released");
    drop(guard);
}

/// Though it is still there, as nobody has come who puts it away.
pub(crate) async fn a_session_that_is_over_by_the_clock_does_not_do(t: &Case<dyn Sessions>) {
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
    // When it was renewed last, at the latest. Nobody renews it in the midst of the transaction.
    let session = t.store.session_of(guard.key()).await;
    let over = format!("UPDATE {sessions} SET expires = expires - ttl WHERE id = {session}");
    assert_eq!(own.ask(&over).await.changed, 1);
    assert!(own.ask(&written(&check)).await.rows.is_empty(), "it is over");
    own.ask("ROLLBACK").await;
    assert_eq!(own.ask(&written(&check)).await.rows, ["1"]);
    guard.unlock().await.expect("released");
}

/// Nobody deletes the entry of a lock by hand in the midst of it, either.
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
    assert!(early.is_err(), "it was deleted in the midst of the transaction");
    own.ask("COMMIT").await;
    within(SOON, "then it is", deleting).await;
    eventually(SOON, "its holder is told", async || !guard.is_valid()).await;
}

/// A transaction that was shown several locks keeps the entries of all of them.
pub(crate) async fn one_query_checks_several_locks(t: &Case) {
    let client = t.client().await;
    let mut own = sql(t).await;
    for lost in ["alice", "bob", "carol"] {
        let all = client.lock_all(["alice", "bob", "carol"]).await.expect("granted");
        own.ask("BEGIN").await;
        let check = written(&all.sql().expect("a check"));
        assert_eq!(own.ask(&check).await.rows, ["1"]);
        let key = all.get(lost).expect("it was asked for").key();
        let deleting = t.store.delete_key(key);
        tokio::pin!(deleting);
        let early = tokio::time::timeout(Duration::from_millis(300), &mut deleting).await;
        assert!(early.is_err(), "{lost} was deleted in the midst of the transaction");
        own.ask("ROLLBACK").await;
        within(SOON, "then it is", deleting).await;
        assert!(own.ask(&check).await.rows.is_empty(), "{lost} is gone");
    }
}

/// Nothing is asked of a database that cannot know.
pub(crate) async fn guards_of_other_stores_are_refused_by_name(t: &Case) {
    let memory = Client::connect("memory://checked-elsewhere").await.expect("connected");
    let guard = memory.mutex("a").lock().await.expect("granted");
    assert!(guard.sql().is_none());
    let (text, asked) = match Raw::connect(&t.store.url(), &t.namespace).await {
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
    assert!(text.contains("memory") && text.contains(&asked.to_string()), "{text}");
    guard.unlock().await.expect("released");
}

fn refused<E: std::fmt::Debug + std::error::Error>(
    checked: Result<(), CheckError<E>>,
) -> (String, SqlDialect) {
    let error = checked.expect_err("it is memory's");
    let CheckError::OtherStore { asked, .. } = &error else { panic!("{error:?}") };
    (error.to_string(), *asked)
}
