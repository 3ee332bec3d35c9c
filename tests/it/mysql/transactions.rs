//! Users' own transactions.

use std::time::Duration;

use distlock::{Client, Error, LockGuard, LostReason, optimistic::updated};
use mysql_async::{Conn, Opts, OptsBuilder, prelude::Queryable};

use crate::{
    common::{
        SOON, Waiter, close, connected,
        database::{Database, Tables},
        locked,
        mysql::{Mysql, OPERATOR, ask, dial},
        queue_of, take_turn, throughout, transaction_cases, within,
    },
    mysql::tables::Own,
};

transaction_cases! { Mysql, Own }

/// Returns an open transaction that has checked the lock.
async fn checked(database: &Own, guard: &LockGuard) -> Conn {
    let mut own = dial(database.url(), None).await;
    ask(&mut own, "BEGIN").await;
    let check = guard.sql().expect("a check");
    assert_eq!(ask(&mut own, check.text()).await, ["1"]);
    own
}

/// Returns the statements executed in this database, and the statements that waited for a lock for
/// about a second and failed. Statements that fail at once are deadlocks.
pub(super) async fn executed_and_refused(database: &Own) -> [Vec<String>; 2] {
    let mut operator = dial(database.url(), Some(OPERATOR)).await;
    let sql = "SELECT LEFT(DIGEST_TEXT, 100) \
               FROM performance_schema.events_statements_summary_by_digest \
               WHERE SCHEMA_NAME = DATABASE()";
    let refused = format!("{sql} AND SUM_ERRORS > 0 AND MAX_TIMER_WAIT > 900000000000");
    [ask(&mut operator, sql).await, ask(&mut operator, &refused).await]
}

/// The transaction stays open for longer than the TTL. Only callers that need its lock wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_check_keeps_no_other_call_waiting() {
    const TTL: Duration = Duration::from_secs(4);
    let database = Own::new().await;
    let client = connected(Client::builder(database.url()).session_ttl(TTL)).await;
    let short_timeout = Client::builder(database.url()).request_timeout(Duration::from_millis(500));
    let others = [connected(short_timeout).await, database.client().await];
    let held = [locked(&client, "a").await, locked(&client, "b").await];
    let mut own = checked(&database, &held[0]).await;
    let [one, other] = [0, 1].map(|at| Waiter::of(&others[at], "a"));
    let served = async || {
        for (client, name) in [(&client, "c"), (&others[0], "d"), (&others[1], "e")] {
            within(TTL / 2, "other calls are served", take_turn(client, name)).await;
        }
    };
    throughout(TTL * 2, "the locks are held", async || {
        served().await;
        held.iter().all(LockGuard::is_valid) && one.waits() && other.waits()
    })
    .await;
    let [first, second] = held;
    let unlocking = tokio::spawn(first.unlock());
    throughout(TTL / 2, "the lock is held until its transaction ends", async || {
        served().await;
        !unlocking.is_finished() && one.waits()
    })
    .await;
    let [executed, refused] = executed_and_refused(&database).await;
    assert!(!executed.is_empty() && refused.is_empty(), "{refused:?} of {executed:?}");
    ask(&mut own, "COMMIT").await;
    within(SOON, "the lock is released", unlocking).await.expect("no panic").expect("released");
    let turn = async |waiter: Waiter<LockGuard>| waiter.granted().await.unlock().await;
    let (one, other) = tokio::join!(turn(one), turn(other));
    one.and(other).expect("released");
    second.unlock().await.expect("released");
    close([client]).await;
    close(others).await;
    database.end().await;
}

/// Calls that write to the checked entry, or set the number of permits, fail until the transaction
/// ends. Other calls are served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_during_an_open_check_keep_no_other_call_waiting() {
    const TTL: Duration = Duration::from_secs(4);
    let database = Own::new().await;
    let client = connected(Client::builder(database.url()).session_ttl(TTL)).await;
    let semaphore = client.semaphore("a", 2);
    let permit = within(SOON, "a permit", semaphore.acquire()).await.expect("acquired");
    let mut own = checked(&database, &permit).await;
    let key = permit.key().to_owned();
    let (written, set, evicted) = {
        let writes = async {
            tokio::join!(permit.put("/data/a", "b"), semaphore.set_permits(1), client.evict(&key))
        };
        let mut writes = std::pin::pin!(within(SOON, "the writes return", writes));
        loop {
            tokio::select! {
                results = &mut writes => break results,
                () = within(TTL / 2, "other calls are served", take_turn(&client, "b")) => {}
            }
        }
    };
    assert!(matches!(written, Err(Error::Unavailable { .. })), "{written:?}");
    assert!(set.is_err() && evicted.is_err(), "{set:?} {evicted:?}");
    let [executed, refused] = executed_and_refused(&database).await;
    assert!(!executed.is_empty() && refused.is_empty(), "{refused:?} of {executed:?}");
    ask(&mut own, "COMMIT").await;
    permit.put("/data/a", "b").await.expect("written");
    semaphore.set_permits(1).await.expect("set");
    permit.release().await.expect("released");
    close([client]).await;
    database.end().await;
}

/// The transaction has locked the row of the holder, but not that of the waiter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiter_is_evicted_during_an_open_check_of_the_holder() {
    let database = Own::new().await;
    let [client, other] = [database.client().await, database.client().await];
    let guard = locked(&client, "a").await;
    let waiter = Waiter::of(&other, "a");
    queue_of(&client, "a", 2).await;
    let mut own = checked(&database, &guard).await;
    let queue = client.mutex("a").queue().await.expect("a list");
    let evicting = client.evict_entry(&queue[1]);
    assert!(within(SOON, "the waiter is evicted", evicting).await.expect("a reply"));
    assert_eq!(client.mutex("a").queue().await.expect("a list").len(), 1);
    ask(&mut own, "COMMIT").await;
    guard.unlock().await.expect("released");
    let error = waiter.result(SOON).await.expect_err("the key was deleted");
    assert!(matches!(error, Error::Evicted { .. }), "{error:?}");
    close([client, other]).await;
    database.end().await;
}

/// At `SERIALIZABLE`, InnoDB locks every row that a transaction reads, also that of the session:
/// renewals wait for the transaction. Its lock is lost, but granted to nobody until it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serializable_check_delays_renewals_and_keeps_the_lock() {
    const TTL: Duration = Duration::from_secs(4);
    let database = Own::new().await;
    let client = connected(Client::builder(database.url()).session_ttl(TTL)).await;
    let other = database.client().await;
    let guard = locked(&client, "a").await;
    let mut own = dial(database.url(), None).await;
    ask(&mut own, "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE").await;
    ask(&mut own, "BEGIN").await;
    assert_eq!(ask(&mut own, guard.sql().expect("a check").text()).await, ["1"]);
    let waiter = Waiter::of(&other, "a");
    let reason = within(TTL * 2, "no renewal is confirmed", guard.lost()).await;
    assert_eq!(reason, LostReason::DeadlinePassed);
    throughout(TTL * 2, "nobody is granted the lock", async || waiter.waits()).await;
    ask(&mut own, "COMMIT").await;
    waiter.granted().await.unlock().await.expect("released");
    close([client, other]).await;
    database.end().await;
}

/// Once a client waits, others join the queue despite the holder's check.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_check_does_not_block_later_waiters() {
    let database = Own::new().await;
    let [client, other] = [database.client().await, database.client().await];
    let guard = locked(&client, "a").await;
    let mut waiters = vec![Waiter::of(&other, "a")];
    queue_of(&client, "a", 2).await;
    let mut own = checked(&database, &guard).await;
    for joined in 3..6 {
        waiters.push(Waiter::of(&other, "a"));
        queue_of(&client, "a", joined).await;
    }
    ask(&mut own, "COMMIT").await;
    guard.unlock().await.expect("released");
    for waiter in waiters {
        waiter.granted().await.unlock().await.expect("released");
    }
    close([client, other]).await;
    database.end().await;
}

/// A driver's count of found rows equals that of changed rows if the version is raised.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn found_rows_are_changed_rows_where_the_version_is_raised() {
    let database = Own::new().await;
    database.ask("CREATE TABLE a (id INT PRIMARY KEY, version INT)").await;
    database.ask("INSERT INTO a VALUES (1, 0)").await;
    for found in [false, true] {
        let options = Opts::from_url(database.url()).expect("a URL");
        let options = OptsBuilder::from_opts(options).client_found_rows(found);
        let mut own = Conn::new(options).await.expect("connected");
        let mut update = async |set: &str| {
            let sql = format!("UPDATE a SET version = {set} WHERE id = 1");
            own.query_drop(sql).await.expect("updated");
            updated(own.affected_rows())
        };
        assert_eq!(update("version + 1").await, Ok(()));
        assert_eq!(update("version").await.is_ok(), found, "nothing changes");
        own.disconnect().await.expect("closed");
    }
    database.end().await;
}
