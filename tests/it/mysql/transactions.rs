//! What users do in transactions of their own.

use std::{collections::HashSet, time::Duration};

use distlock::{Client, LockGuard, optimistic::updated};
use mysql_async::{Conn, Opts, OptsBuilder, prelude::Queryable};
use tokio::{task::JoinHandle, time::sleep};

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

/// A transaction that has checked that the lock is held, and is open.
async fn checked(database: &Own, guard: &LockGuard) -> Conn {
    let mut own = dial(database.url(), None).await;
    ask(&mut own, "BEGIN").await;
    let check = guard.sql().expect("a check");
    assert_eq!(ask(&mut own, check.text()).await, ["1"]);
    own
}

/// Looks now and then for transactions that wait on the server for this one, by the server's word.
/// It ends once it has seen the same one twice: for a moment one may wait, which looks at a row and
/// leaves it as it is.
async fn seen_waiting(database: &Own, user: &Conn) -> JoinHandle<HashSet<String>> {
    let mut operator = dial(database.url(), Some(OPERATOR)).await;
    let sql = format!(
        "SELECT CAST(w.requesting_trx_id AS CHAR) FROM information_schema.INNODB_LOCK_WAITS AS w \
         JOIN information_schema.INNODB_TRX AS t ON t.trx_id = w.blocking_trx_id \
         WHERE t.trx_mysql_thread_id = {}",
        user.id()
    );
    tokio::spawn(async move {
        let mut before = HashSet::new();
        loop {
            let waiting: HashSet<_> = ask(&mut operator, &sql).await.into_iter().collect();
            if !waiting.is_disjoint(&before) {
                return waiting;
            }
            before = waiting;
            // The server shows the same for a tenth of a second.
            sleep(Duration::from_millis(250)).await;
        }
    })
}

/// It takes longer than a session lives that is not renewed. Callers that need the lock that it
/// keeps wait, and no others do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_check_keeps_no_other_call_waiting() {
    const TTL: Duration = Duration::from_secs(4);
    let database = Own::new().await;
    let client = connected(Client::builder(database.url()).session_ttl(TTL)).await;
    let impatient = Client::builder(database.url()).request_timeout(Duration::from_millis(500));
    let others = [connected(impatient).await, database.client().await];
    let held = [locked(&client, "a").await, locked(&client, "b").await];
    let mut own = checked(&database, &held[0]).await;
    let waiting = seen_waiting(&database, &own).await;
    let [one, other] = [0, 1].map(|at| Waiter::of(&others[at], "a"));
    let served = async || {
        for (client, name) in [(&client, "c"), (&others[0], "d"), (&others[1], "e")] {
            within(TTL / 2, "it is served", take_turn(client, name)).await;
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
    assert!(!waiting.is_finished(), "waits on the server: {:?}", waiting.await);
    ask(&mut own, "COMMIT").await;
    within(SOON, "it is released", unlocking).await.expect("no panic").expect("released");
    let turn = async |waiter: Waiter<LockGuard>| waiter.granted().await.unlock().await;
    let (one, other) = tokio::join!(turn(one), turn(other));
    one.and(other).expect("released");
    second.unlock().await.expect("released");
    close([client]).await;
    close(others).await;
    database.end().await;
}

/// Once somebody waits, others join the queue whatever the holder has checked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_check_keeps_later_waiters_from_nothing() {
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

/// What a driver makes of an update that finds its row is the same, as the version is raised.
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
