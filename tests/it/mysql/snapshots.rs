//! Snapshots of unrelated transactions, which preserve the entries that have left a queue.

use futures_util::future::join_all;

use crate::{
    common::{
        Waiter, close,
        database::{Database, Tables},
        locked,
        mysql::{ask, dial},
        queue_of, release_both, take_turn,
    },
    mysql::tables::Own,
};

/// Returns the number of pages of `distlock_entries` that a query reads, by the server's own count.
async fn pages(database: &Own, query: &str) -> usize {
    let json = database.ask(&format!("ANALYZE FORMAT=JSON {query}")).await.remove(0);
    let number = |text: &str| -> usize {
        let digits = text.split(|letter: char| !letter.is_ascii_digit()).next();
        digits.and_then(|digits| digits.parse().ok()).expect("a number")
    };
    json.split("\"pages_accessed\": ").skip(1).map(number).sum()
}

/// Two clients repeatedly hand a lock over. Searches do not scan the deleted entries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn searches_stay_short_while_a_snapshot_is_open() {
    let database = Own::new().await;
    let clients = [database.client().await, database.client().await];
    take_turn(&clients[0], "a").await;
    let mut own = dial(database.url(), None).await;
    ask(&mut own, "START TRANSACTION WITH CONSISTENT SNAPSHOT").await;
    ask(&mut own, "SELECT COUNT(*) FROM distlock_entries").await;
    let takes = clients.iter().map(|client| async {
        for _ in 0..1_000 {
            take_turn(client, "a").await;
        }
    });
    join_all(takes).await;
    let guard = locked(&clients[0], "a").await;
    let waiter = Waiter::of(&clients[1], "a");
    queue_of(&clients[0], "a", 2).await;
    let entries = "SELECT MIN(session + number) FROM distlock_entries WHERE queue = '/distlock/a'";
    let lowest = "(SELECT lowest FROM distlock_queues WHERE queue = '/distlock/a')";
    let some = format!("{entries} AND number >= {lowest}");
    let [all, some] = [pages(&database, entries).await, pages(&database, &some).await];
    println!("{some} of {all} pages");
    assert!(some * 3 < all, "{some} of {all} pages");
    release_both(guard, waiter).await;
    ask(&mut own, "ROLLBACK").await;
    close(clients).await;
    database.end().await;
}
