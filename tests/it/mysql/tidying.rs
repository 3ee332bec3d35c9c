//! Rows of unused queues, and the cost of removing them.

use crate::{
    common::{
        SOON, close,
        database::{Database, Tables},
        eventually, locked,
        mysql::{NOW, ask, dial},
        release, take_turn,
    },
    mysql::tables::Own,
};

/// This takes several requests, each of which removes a thousand rows.
const IDLE: usize = 6_000;

/// Returns a database with the tables and `IDLE` queues that were last used two days ago.
async fn with_idle_queues() -> Own {
    let database = Own::new().await;
    close([database.client().await]).await;
    let sql = format!(
        "INSERT INTO distlock_queues (queue, number, turn, used) \
         SELECT CONCAT('/old/', seq), seq, 0, {NOW} - 172800000000 + seq FROM seq_1_to_{IDLE}"
    );
    database.ask(&sql).await;
    database
}

async fn idle(database: &Own) -> usize {
    let count = "SELECT COUNT(*) FROM distlock_queues WHERE queue LIKE '/old/%'";
    database.ask(count).await[0].parse().expect("a number")
}

/// Rows that stay are not locked: the lock memory of two clients that met a million of them once
/// brought a server down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tidying_locks_little_more_than_the_removed_rows() {
    let database = with_idle_queues().await;
    let log = "CREATE TABLE locked (id BIGINT AUTO_INCREMENT PRIMARY KEY, locks BIGINT, \
               number BIGINT)";
    database.ask(log).await;
    // Logs every hundredth row, including the last one of each request. Logging every row would
    // exceed a request timeout on a busy machine.
    let log = "CREATE TRIGGER logs BEFORE DELETE ON distlock_queues FOR EACH ROW \
               IF OLD.number MOD 100 = 0 THEN INSERT INTO locked (locks, number) \
               SELECT trx_rows_locked, OLD.number FROM information_schema.innodb_trx \
               WHERE trx_mysql_thread_id = CONNECTION_ID(); END IF";
    database.ask(log).await;
    let client = database.client().await;
    // Polling the floor is cheaper for the server than counting the rows.
    let floor = "SELECT floor FROM distlock_schema";
    let last = [IDLE.to_string()];
    eventually(SOON, "all idle rows are removed", async || database.ask(floor).await == last).await;
    assert_eq!(idle(&database).await, 0);
    let most = database.ask("SELECT MAX(locks) FROM locked").await;
    let most: usize = most[0].parse().expect("a number");
    println!("{most} locks for 1000 rows");
    // The row and its entries in two indexes, each with a delete mark.
    assert!(most < 8 * 1000, "{most} locks");
    // The rows that were idle longest are removed first, and their tokens are not reused.
    let late = "SELECT id FROM locked WHERE (id - 1) DIV 10 <> (number - 1) DIV 1000";
    assert!(database.ask(late).await.is_empty());
    client.close().await.expect("closed");
    database.end().await;
}

/// Rows of single entries are removed unless they are in use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_were_used_once_cost_no_row() {
    let database = Own::new().await;
    let holder = database.client().await;
    let guard = locked(&holder, "held").await;
    take_turn(&holder, "of late").await;
    let sql = format!(
        "INSERT INTO distlock_alone (queue, epoch, number, version, since) \
         SELECT CONCAT('/old/', seq), 1, 2 * seq, 1, {NOW} - 61000000 FROM seq_1_to_3000; \
         UPDATE distlock_alone SET since = {NOW} - 61000000 WHERE queue LIKE '%/held'"
    );
    database.ask(&sql).await;
    let mut own = dial(database.url(), None).await;
    ask(&mut own, "BEGIN").await;
    ask(&mut own, "SELECT 1 FROM distlock_alone WHERE queue = '/old/7' FOR UPDATE").await;
    let client = database.client().await;
    let rows = "SELECT queue FROM distlock_alone ORDER BY queue";
    let left = ["/distlock/held", "/distlock/of%20late", "/old/7"];
    eventually(SOON, "the idle rows are removed", async || database.ask(rows).await == left).await;
    assert!(guard.is_valid());
    let next = client.mutex("new").lock().await.expect("granted");
    assert!(next.fencing_token().as_u64() > 6000, "{next:?}");
    release([guard, next]).await;
    ask(&mut own, "ROLLBACK").await;
    close([holder, client]).await;
    database.end().await;
}

/// A transaction has deleted the entry of a queue that was unused for long, as a release does, and
/// stays open. The row of that queue stays, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_release_does_not_block_tidying() {
    let database = Own::new().await;
    close([database.client().await]).await;
    let sql = format!(
        "INSERT INTO distlock_sessions (id, ttl, expires, clock) \
         VALUES (7, 3600000000, {NOW} + 3600000000, ''); \
         INSERT INTO distlock_queues (queue, number, turn, used) \
         VALUES ('/old/a', 1, 0, {NOW} - 61000000), ('/old/b', 1, 0, {NOW} - 61000000); \
         INSERT INTO distlock_entries \
         (queue, number, session, ticket, label, value, version, since) \
         VALUES ('/old/a', 1, 7, UUID(), '', '', 1, {NOW} - 61000000)"
    );
    database.ask(&sql).await;
    let mut own = dial(database.url(), None).await;
    ask(&mut own, "BEGIN").await;
    ask(&mut own, "DELETE FROM distlock_entries WHERE queue = '/old/a' AND number = 1").await;
    let client = database.client().await;
    let rows = "SELECT queue FROM distlock_queues WHERE queue LIKE '/old/%'";
    eventually(SOON, "the idle row is removed", async || database.ask(rows).await == ["/old/a"])
        .await;
    ask(&mut own, "ROLLBACK").await;
    close([client]).await;
    database.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_tidy_one_at_a_time() {
    let database = with_idle_queues().await;
    // Another client tidies for a long time.
    let mut other = database.dial().await;
    let take = "SELECT GET_LOCK(CONCAT('distlock ', SHA1(DATABASE())), 0) = 1";
    assert_eq!(ask(&mut other, take).await, ["1"]);
    let first = database.client().await;
    // A client's requests are executed in order.
    take_turn(&first, "a").await;
    assert_eq!(idle(&database).await, IDLE);
    drop(other);
    // The other connection has ended by then, and each client lets the next one tidy.
    eventually(SOON, "the idle rows are removed", async || {
        close([database.client().await]).await;
        idle(&database).await <= IDLE - 2000
    })
    .await;
    first.close().await.expect("closed");
    database.end().await;
}
