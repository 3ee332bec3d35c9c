//! Servers that are restarted one after the other, as in an upgrade.

use std::time::Duration;

use distlock_testkit::docker::restart;
use tokio::time::{Instant, sleep, sleep_until};

use crate::{
    clusters::on_both,
    common::{SOON, eventually},
};

/// Prints the holder's remaining time at the worst moment. On ZooKeeper a lock is valid for three
/// fifths of the TTL after a keepalive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_and_waiters_outlive_a_rolling_restart() {
    const INTERVAL: Duration = Duration::from_secs(10);
    on_both(async |t| {
        let clients = t.clients::<3>().await;
        assert_eq!(clients[0].session_ttl(), Duration::from_secs(15));
        let guard = clients[0].mutex("kept").lock().await.unwrap();
        let mut queue = vec![guard.key().to_owned()];
        let token = guard.fencing_token();
        let mut waiters = t.enqueue_all(&clients[1..], "kept").await;
        queue.extend(waiters.iter().map(|waiter| waiter.key.clone()));
        queue.sort();
        let restarts = async {
            for (name, server) in t.store.servers() {
                let start = Instant::now();
                restart(name).await;
                eventually(SOON * 2, "the server serves again", async || {
                    t.store.serves(server).await
                })
                .await;
                println!("{name} serves again after {:?}", start.elapsed());
                sleep_until(start + INTERVAL).await;
            }
        };
        let mut least = guard.remaining();
        let watched = async {
            loop {
                assert!(guard.is_valid(), "lost; {least:?} were left when last seen");
                least = least.min(guard.remaining());
                if let Some(place) = waiters.iter().position(|waiter| !waiter.waits()) {
                    return place;
                }
                sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            reason = guard.lost() => panic!("lost: {reason}"),
            place = watched => {
                let outcome = waiters.remove(place).result(SOON).await;
                panic!("{} no longer waits: {outcome:?}", t.store.url());
            }
            () = restarts => {}
        }
        println!("{}: at the worst moment the lock was valid for {least:?}", t.store.url());
        assert_eq!(guard.fencing_token(), token);
        let mut keys = t.keys().await;
        keys.sort();
        assert_eq!(keys, queue, "a waiter has changed its place");
        guard.unlock().await.unwrap();
        let mut last = token;
        for waiter in waiters {
            let key = waiter.key.clone();
            let guard = waiter.granted().await;
            assert_eq!(guard.key(), key);
            assert!(guard.fencing_token() > last);
            last = guard.fencing_token();
            guard.unlock().await.unwrap();
        }
    })
    .await;
}
