//! The requests that clients send to etcd while they take turns.

use std::time::Duration;

use distlock_testkit::proxy::Mode;
use futures_util::future::join_all;
use tokio::{task::JoinSet, time::sleep};

use crate::common::{
    Case,
    etcd::{Etcd, Server},
    release_both,
};

const TURNS: u64 = 60;
/// With this many clients one creates the tail key, except once in 13,000 runs.
const CROWD: usize = 300;

/// Emits the cases, which the model passes, too.
macro_rules! turn_cases {
    ($harness:ty) => {
        $crate::common::own_cases! { $harness, alone,
            a_waiter_behind_the_same_predecessor_reuses_its_watch,
            a_watch_of_another_key_is_not_reused,
            a_few_of_many_concurrent_joiners_create_the_tail_key,
        }
    };
}

pub(crate) use turn_cases;

turn_cases!(Etcd);

pub(crate) mod cases {
    use super::*;

    /// Each client waits behind the same predecessor every time, so the server already has its
    /// watch.
    pub(crate) async fn a_waiter_behind_the_same_predecessor_reuses_its_watch<const KIND: usize>(
        t: &Case<Server<KIND>>,
    ) {
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
        // One request to lock, one to unlock, one to read after the event. The order changes
        // occasionally.
        let pairs = 3 * TURNS;
        assert!(spent.requests <= pairs * 7 / 2, "{spent:?} for {pairs}");
        assert!(spent.watches <= pairs / 2, "{spent:?} for {pairs}");
        assert!(spent.events.unsigned_abs() <= pairs * 3 / 2, "{spent:?} for {pairs}");
    }

    /// A successor is notified at once, even if it waited for another key before.
    pub(crate) async fn a_watch_of_another_key_is_not_reused<const KIND: usize>(
        t: &Case<Server<KIND>>,
    ) {
        let clients = t.clients::<3>().await;
        let began = tokio::time::Instant::now();
        for turn in 0..12 {
            let [one, two] = [&clients[turn % 3], &clients[(turn + 1 + turn / 6) % 3]];
            let holder = one.mutex("others").lock().await.expect("locked");
            let waiter = t.enqueue(two, "others").await;
            release_both(holder, waiter).await;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }

    /// Each client counts the queue before any of the others has joined.
    pub(crate) async fn a_few_of_many_concurrent_joiners_create_the_tail_key<const KIND: usize>(
        t: &Case<Server<KIND>>,
    ) {
        let holder = t.client().await.mutex("crowd").lock().await.expect("locked");
        let proxies = t.proxies().await;
        let mut clients = Vec::new();
        while clients.len() < CROWD {
            let ten = (0..10).map(async |_| {
                let client = t.connect(t.builder_for(&proxies.url())).await;
                // The first request opens a connection.
                drop(client.mutex("warm-up").try_lock().await);
                client
            });
            clients.extend(join_all(ten).await);
        }
        // All requests are under way before the first one arrives.
        proxies.set(&Mode::Delay(Duration::from_millis(400)));
        let mut waiting = JoinSet::new();
        for client in &clients {
            let mutex = client.mutex("crowd");
            waiting.spawn(async move { drop(mutex.lock().await) });
        }
        t.queue_of(CROWD + 1).await;
        let tail = format!("{}/crowd!/tail", t.namespace);
        let mut raw = t.store.client();
        let tail = raw.get(tail, None).await.expect("etcd replies");
        assert_eq!(tail.count(), 1, "the queue has no tail key");
        drop(waiting);
        proxies.set(&Mode::Pass);
        t.queue_of(1).await;
        holder.unlock().await.expect("released");
    }
}
