//! A thousand waiters for one lock, many of which die at once.

use std::time::Duration;

use tokio::{sync::mpsc, task::JoinSet, time::sleep};

use crate::{
    clusters::{on_both, on_each},
    common::{Case, Elsewhere, Job, Members, SOON, eventually, release, release_both, within},
};

/// Waits for a number of keys, without listing the long queue too often.
async fn queue_of(t: &Case<dyn Members>, length: usize) {
    let mut seen = 0;
    for _ in 0..150 {
        seen = t.keys().await.len();
        if seen == length {
            return;
        }
        sleep(Duration::from_millis(200)).await;
    }
    panic!("there are {seen} keys, not {length}");
}

/// The waiters are in ten clients of this process and in three other processes, which are killed
/// midway. The token is the place in the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_waiters_are_served_in_order_though_a_third_of_them_dies() {
    const HERE: usize = 670;
    const ELSEWHERE: [usize; 3] = [110; 3];
    on_each(async |t| {
        let mut clients = Vec::new();
        for _ in 0..10 {
            // This much load may delay keepalives on a busy machine. ZooKeeper grants at most this
            // TTL.
            clients.push(t.connect(t.builder().session_ttl(Duration::from_secs(20))).await);
        }
        let (mut markers, mut sessions) = (Vec::new(), Vec::new());
        for (place, client) in clients.iter().enumerate() {
            let marker = client.mutex(format!("marker-{place}")).lock().await.expect("granted");
            sessions.push(t.store.session_of(marker.key()).await);
            markers.push(marker);
        }
        let holder = clients[0].mutex("crowd").lock().await.expect("granted");
        let mut processes: Vec<Box<dyn Elsewhere>> = Vec::new();
        for crowd in ELSEWHERE {
            processes.push(
                t.store
                    .lock_elsewhere(Job { crowd, ..Job::new(t, "crowd", t.store.min_ttl() * 3) })
                    .await,
            );
        }
        let (grants, mut granted) = mpsc::unbounded_channel();
        let mut waiters = JoinSet::new();
        for waiter in 0..HERE {
            let (mutex, grants) = (clients[waiter % clients.len()].mutex("crowd"), grants.clone());
            waiters.spawn(async move {
                let guard = mutex.lock().await.expect("granted");
                // Sent while the lock is held, so the channel's order is the order of the grants.
                grants.send(guard.fencing_token()).expect("the receiver exists");
                assert!(guard.is_valid());
                guard.unlock().await.expect("released");
            });
        }
        drop(grants);
        queue_of(t, markers.len() + 1 + 1000).await;
        let before = t.cost(&sessions).await;
        holder.unlock().await.expect("released");
        let mut order = Vec::new();
        while order.len() < HERE {
            order.push(
                within(SOON * 2, "another waiter is granted", granted.recv())
                    .await
                    .expect("not all were granted"),
            );
            if order.len() == HERE / 3 {
                for process in processes.drain(..) {
                    process.crash().await;
                }
            }
        }
        waiters.join_all().await;
        assert!(order.is_sorted_by(|a, b| a < b), "granted out of order");
        let spent = t.cost(&sessions).await - before;
        println!("{}: {spent:?} for a thousand waiters", t.store.url());
        assert!(spent.events <= 2 * 1000, "{spent:?}: more than two for each waiter");
        t.keys_within(SOON, markers.len()).await;
        release(markers).await;
    })
    .await;
}

/// All keys of the process are deleted at once, which must not grant the lock to their successors.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_waiters_that_die_at_once_are_passed_over() {
    on_both(async |t| {
        let ttl = t.store.min_ttl() * 2;
        let [one, two] = t.clients().await;
        let guard = one.mutex("crowd").lock().await.expect("granted");
        let process = t.store.lock_elsewhere(Job { crowd: 500, ..Job::new(t, "crowd", ttl) }).await;
        queue_of(t, 501).await;
        let last = t.enqueue(&two, "crowd").await;
        let crashed = process.crash().await;
        // etcd expires leases once a second, and revokes five hundred of them in half a second.
        let limit = ttl + t.store.grace() + Duration::from_secs(1);
        eventually(limit, "the keys are deleted", async || t.keys().await.len() == 2).await;
        println!("{}: deleted after {:?} of {ttl:?}", t.store.url(), crashed.elapsed());
        last.waits_behind(&guard, Duration::from_millis(300)).await;
        release_both(guard, last).await;
    })
    .await;
}
