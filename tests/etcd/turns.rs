//! What clients ask of etcd who take turns.

use std::time::Duration;

use tokio::{task::JoinSet, time::sleep};

use crate::common::{alone, etcd::Etcd};

const TURNS: u64 = 60;

/// Each waits behind the same other one every time, and the server has that watch already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_the_same_one_again_is_told_by_the_same_watch() {
    alone::<Etcd>(async |t| {
        let clients = t.clients::<3>().await;
        let turns = async || {
            let mut tasks = JoinSet::new();
            for client in &clients {
                let mutex = client.mutex("turns");
                tasks.spawn(async move {
                    for _ in 0..TURNS {
                        let guard = mutex.lock().await.expect("locked");
                        sleep(Duration::from_millis(2)).await;
                        guard.unlock().await.expect("released");
                    }
                });
            }
            tasks.join_all().await;
        };
        turns().await;
        let before = t.cost(&[]).await;
        turns().await;
        let spent = t.cost(&[]).await - before;
        // One to lock, one to unlock, one to look after the event; now and then an order changes.
        let pairs = 3 * TURNS;
        assert!(spent.requests <= pairs * 7 / 2, "{spent:?} for {pairs}");
        assert!(spent.watches <= pairs / 2, "{spent:?} for {pairs}");
        assert!(spent.events.unsigned_abs() <= pairs * 3 / 2, "{spent:?} for {pairs}");
    })
    .await;
}

/// The one behind is told at once, also if it waited for another one before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_of_another_key_is_none_of_this_one() {
    alone::<Etcd>(async |t| {
        let clients = t.clients::<3>().await;
        let began = tokio::time::Instant::now();
        for turn in 0..12 {
            let [one, two] = [&clients[turn % 3], &clients[(turn + 1 + turn / 6) % 3]];
            let holder = one.mutex("others").lock().await.expect("locked");
            let waiter = t.enqueue(two, "others").await;
            holder.unlock().await.expect("released");
            waiter.served().await;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    })
    .await;
}
