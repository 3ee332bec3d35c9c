//! The release marker of a long queue: what it proves, and who writes none.

use std::time::Duration;

use distlock::Client;
use distlock_testkit::proxy::Mode;
use tokio::task::JoinSet;

use crate::common::{
    Case, Harness, SOON,
    etcd::{Etcd, Server},
    eventually, handover, release_both, within,
};

/// So many make a long queue.
const MANY: usize = 60;

/// Those who wait for nothing, until they are dropped.
async fn crowd<const KIND: usize>(
    t: &Case<Server<KIND>>,
    client: &Client,
    name: &str,
    ahead: usize,
) -> JoinSet<()> {
    let mut crowd = JoinSet::new();
    for mutex in std::iter::repeat_n(client.mutex(name), MANY) {
        crowd.spawn(async move { drop(mutex.lock().await) });
    }
    t.queue_of(ahead + MANY).await;
    crowd
}

async fn release_marker<const KIND: usize>(t: &Case<Server<KIND>>, name: &str) -> Option<String> {
    let mut raw = t.store.client();
    let key = format!("{}/{name}!/word", t.namespace);
    let kvs = raw.get(key, None).await.expect("etcd answers").take_kvs();
    kvs.first().map(|kv| kv.value_str().expect("it is text").to_owned())
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
        // It was alone when it joined.
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
        assert_eq!(release_marker(t, "marked").await, None, "it goes with the queue");
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
        t.queue_of(MANY + 2).await;
        last.waits_throughout(Duration::from_millis(500), "others are in front").await;
        assert_eq!(release_marker(t, "quitter").await, None);
        drop(crowd);
        release_both(holder, last).await;
    }

    /// Others may have come in since its key was deleted, and behind them who knows it as the tail.
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
        // It is the tail still, and does not know yet that an operator has deleted its key.
        t.store.delete_key(evicted.key()).await;
        let mutex = three.mutex("evicted");
        let holder = within(SOON, "an answer", mutex.try_lock()).await.unwrap();
        let holder = holder.expect("nobody is there");
        let proxies = t.proxies().await;
        let far = t.connect(t.builder_for(&proxies.url())).await;
        drop(far.mutex("other").lock().await.unwrap());
        // The answer to joining, and then the watch, are this long on their way.
        proxies.set(&Mode::Delay(Duration::from_millis(200)));
        let last = t.enqueue(&far, "evicted").await;
        // The marker would be there before the look that follows.
        let _evicted = evicted.unlock().await;
        last.waits_throughout(Duration::from_secs(2), "another one holds it").await;
        assert_eq!(release_marker(t, "evicted").await, None);
        proxies.set(&Mode::Pass);
        holder.unlock().await.unwrap();
        eventually(SOON, "it is let in", async || !last.waits()).await;
        last.served().await;
    }
}
