//! A notification of PostgreSQL wakes every listening session of the database, so a session without
//! watches does not listen.

use std::time::Duration;

use distlock::Client;
use tokio::time::sleep;

use super::place::Own;
use crate::common::{
    SOON, close, contended,
    database::{Database, Tables},
    eventually, queue_of, release_both, take_turn,
};

/// Returns the number of sessions that have begun or ceased to listen at least `times` times.
async fn sessions(database: &Own, what: &str, times: u64) -> usize {
    let executed = database.executed(&format!("{what} distlock")).await;
    executed.iter().filter(|calls| **calls >= times).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_sessions_that_watch_listen() {
    let database = Own::new().await;
    // The recheck interval is too long to matter here, so grants come from notifications.
    let connect = || {
        let builder = Client::builder(database.url()).recheck_interval(Duration::from_secs(60));
        async { builder.connect().await.expect("connected") }
    };
    let [holder, waiting, idle] = [connect().await, connect().await, connect().await];
    for client in [&holder, &waiting, &idle] {
        take_turn(client, "a").await;
    }
    assert_eq!(sessions(&database, "LISTEN", 1).await, 0, "no session has watched anything");
    for round in 1..=2 {
        let (guard, waiter) = contended(&holder, &waiting, "a").await;
        queue_of(&idle, "a", 2).await;
        // The holder watches its own key, and the waiter the holder's.
        let listen = async || sessions(&database, "LISTEN", round).await == 2;
        eventually(SOON, "both listen", listen).await;
        sleep(Duration::from_millis(200)).await;
        release_both(guard, waiter).await;
        let end = async || sessions(&database, "UNLISTEN", round).await == 2;
        eventually(SOON, "neither listens", end).await;
    }
    close([holder, waiting, idle]).await;
    database.end().await;
}

/// The server may execute a lost connection's request to end a watch after the session has begun
/// the same watch on its next connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_outlasts_a_late_request_to_end_the_former_one() {
    const WAITERS: &str = "SELECT 1 FROM distlock.watches AS w \
        JOIN distlock.entries AS e USING (queue, number) WHERE w.session <> e.session";
    const LATE: &str = "SET distlock.connection = 7; \
        SELECT distlock.unwatch(session, queue, number) FROM distlock.watches";
    let database = Own::new().await;
    let connect = || {
        let builder = Client::builder(database.url()).recheck_interval(Duration::from_secs(60));
        async { builder.connect().await.expect("connected") }
    };
    let [holder, waiting] = [connect().await, connect().await];
    let (guard, waiter) = contended(&holder, &waiting, "a").await;
    let watches = async || database.ask(WAITERS).await.len() == 1;
    eventually(SOON, "the waiter watches the holder's entry", watches).await;
    database.ask(LATE).await;
    release_both(guard, waiter).await;
    close([holder, waiting]).await;
    database.end().await;
}

/// Watches begin and end all the time, and a watch that ends with a notification has no other
/// check.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_notification_is_lost_as_listening_begins_and_ends() {
    let database = Own::new().await;
    let connect = || {
        let builder = Client::builder(database.url()).recheck_interval(Duration::from_secs(60));
        async { builder.connect().await.expect("connected") }
    };
    let [one, two] = [connect().await, connect().await];
    // Around the time when a session ceases to listen.
    for pause in [0, 1, 3, 1990, 1995, 2000, 2003, 2010] {
        let (guard, waiter) = contended(&one, &two, "a").await;
        sleep(Duration::from_millis(fastrand::u64(..20))).await;
        release_both(guard, waiter).await;
        sleep(Duration::from_millis(pause)).await;
    }
    close([one, two]).await;
    database.end().await;
}
