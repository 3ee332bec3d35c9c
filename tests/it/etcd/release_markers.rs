//! The release marker of a long queue: what it proves, and which clients write none.

use std::time::Duration;

use distlock::Client;
use distlock_testkit::proxy::Mode;
use tokio::task::JoinSet;

use crate::common::{
    Case, Harness, SOON,
    etcd::{Etcd, Server},
    eventually, handover, release_both, within,
};

/// A queue of this length is long.
const LONG_QUEUE: usize = 60;

/// Returns waiters that leave the queue when dropped.
async fn crowd<const KIND: usize>(
    t: &Case<Server<KIND>>,
    client: &Client,
    name: &str,
    ahead: usize,
) -> JoinSet<()> {
    let mut crowd = JoinSet::new();
    for mutex in std::iter::repeat_n(client.mutex(name), LONG_QUEUE) {
        crowd.spawn(async move { drop(mutex.lock().await) });
    }
    t.queue_of(ahead + LONG_QUEUE).await;
    crowd
}

async fn release_marker<const KIND: usize>(t: &Case<Server<KIND>>, name: &str) -> Option<String> {
    let mut raw = t.store.client();
    let key = format!("{}/{name}!/word", t.namespace);
    let kvs = raw.get(key, None).await.expect("etcd replies").take_kvs();
    kvs.first().map(|kv| kv.value_str().expect("the marker is text").to_owned())
}

/// Emits the cases, which the model passes, too.
macro_rules! release_marker_cases {
    ($harness:ty) => {
        $crate::common::own_cases! { $harness, beside_others,
            a_holder_writes_a_release_marker_in_a_long_queue,
            a_waiter_that_gives_up_writes_no_release_marker,
            an_evicted_holder_writes_no_release_marker,
        }
    };
}

pub(crate) use release_marker_cases;

release_marker_cases!(Etcd);

pub(crate) mod cases {
    use super::*;

    pub(crate) async fn a_holder_writes_a_release_marker_in_a_long_queue<const KIND: usize>(
        t: &Case<Server<KIND>>,
    ) {
        let clients = t.clients::<4>().await;
        let first = clients[0].mutex("marked").lock().await.unwrap();
        let crowd = crowd(t, &clients[0], "marked", 1).await;
        let mut waiters = t.enqueue_all(&clients[1..], "marked").await;
        drop(crowd);
        t.queue_of(4).await;
        // The holder was alone when it joined.
        first.unlock().await.unwrap();
        assert_eq!(release_marker(t, "marked").await, None);
        let last = waiters.pop().expect("there are three");
        for waiter in waiters {
            let guard = waiter.granted().await;
            let expected = format!("{} {}", guard.key(), guard.fencing_token());
            guard.unlock().await.unwrap();
            assert_eq!(release_marker(t, "marked").await, Some(expected));
        }
        last.served().await;
        assert_eq!(release_marker(t, "marked").await, None, "the marker is deleted with the queue");
    }

    pub(crate) async fn a_waiter_that_gives_up_writes_no_release_marker<const KIND: usize>(
        t: &Case<Server<KIND>>,
    ) {
        let clients = t.clients::<4>().await;
        let holder = clients[0].mutex("quitter").lock().await.unwrap();
        let crowd = crowd(t, &clients[1], "quitter", 1).await;
        let quitter = t.enqueue(&clients[2], "quitter").await;
        let last = t.enqueue(&clients[3], "quitter").await;
        quitter.cancel();
        t.queue_of(LONG_QUEUE + 2).await;
        last.waits_throughout(Duration::from_millis(500), "other waiters are ahead").await;
        assert_eq!(release_marker(t, "quitter").await, None);
        drop(crowd);
        release_both(holder, last).await;
    }

    /// A client may have joined since the key was deleted, and a successor may still know that key
    /// as the tail.
    pub(crate) async fn an_evicted_holder_writes_no_release_marker<const KIND: usize>(
        t: &Case<Server<KIND>>,
    ) {
        let [one, two, three] = t.clients().await;
        let first = one.mutex("evicted").lock().await.unwrap();
        let crowd = crowd(t, &one, "evicted", 1).await;
        let waiter = t.enqueue(&two, "evicted").await;
        drop(crowd);
        t.queue_of(2).await;
        let evicted = handover(first, waiter).await;
        // The evicted holder is still the tail, and does not know yet that its key was deleted.
        t.store.delete_key(evicted.key()).await;
        let mutex = three.mutex("evicted");
        let holder = within(SOON, "a reply", mutex.try_lock()).await.unwrap();
        let holder = holder.expect("the lock is free");
        let proxies = t.proxies().await;
        let far = t.connect(t.builder_for(&proxies.url())).await;
        drop(far.mutex("other").lock().await.unwrap());
        // Delays the reply to the join, and then the watch.
        proxies.set(&Mode::Delay(Duration::from_millis(200)));
        let last = t.enqueue(&far, "evicted").await;
        // The marker would exist before the next read.
        let _evicted = evicted.unlock().await;
        last.waits_throughout(Duration::from_secs(2), "another client holds the lock").await;
        assert_eq!(release_marker(t, "evicted").await, None);
        proxies.set(&Mode::Pass);
        holder.unlock().await.unwrap();
        eventually(SOON, "the waiter is granted", async || !last.waits()).await;
        last.served().await;
    }
}
