//! Replies of etcd that are stale, or lost on the way.

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};

use distlock::{Client, Error};
use distlock_testkit::{docker::OwnEtcd, proxy::Mode};
use etcd_client::CompactionOptions;

use crate::common::{
    Case, Harness, SOON,
    etcd::{Etcd, Server},
    eventually, release_both, within,
};

static FORGED: AtomicUsize = AtomicUsize::new(0);

/// Replaces the reply of a successful transaction with a stale one from an empty queue: revision 1,
/// condition met, one read without keys.
fn of_long_ago(packet: &[u8]) -> Option<Vec<u8>> {
    // The header of an HTTP/2 data frame, then that of a gRPC message.
    let (head, message) = (packet.get(..9)?, packet.get(14..)?);
    // The response header, `succeeded: true`, and the first of the responses.
    let header = 2 + usize::from(*message.get(1)?);
    if head[3] != 0 || message[0] != 0x0a || !message.get(header..)?.starts_with(&[0x10, 1, 0x1a]) {
        return None;
    }
    FORGED.fetch_add(1, SeqCst);
    let stale = [0x0a, 2, 0x18, 1, 0x10, 1, 0x1a, 2, 0x0a, 0];
    Some([&[0, 0, 5 + 10, 0, 0], &head[5..], &[0, 0, 0, 0, 10], &stale].concat())
}

static EMPTIED: AtomicUsize = AtomicUsize::new(0);

/// Replaces the reply of a read that has keys with a stale one from an empty queue: revision 1, and
/// no keys.
fn empty_of_long_ago(packet: &[u8]) -> Option<Vec<u8>> {
    let (head, message) = (packet.get(..9)?, packet.get(14..)?);
    // The response header, and the first of the keys.
    let header = 2 + usize::from(*message.get(1)?);
    if head[3] != 0 || message[0] != 0x0a || *message.get(header)? != 0x12 {
        return None;
    }
    EMPTIED.fetch_add(1, SeqCst);
    let stale = [0x0a, 2, 0x18, 1];
    Some([&[0, 0, 5 + 4, 0, 0], &head[5..], &[0, 0, 0, 0, 4], &stale].concat())
}

/// An operator may lower the number of operations that etcd allows in a transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_that_are_too_many_for_one_transaction_are_taken_one_by_one() {
    let etcd = OwnEtcd::start(&["--max-txn-ops=8"]).await;
    too_many_locks_are_taken_one_by_one(etcd.address).await;
}

/// Expects a server that allows eight operations in a transaction.
pub(crate) async fn too_many_locks_are_taken_one_by_one(server: SocketAddr) {
    let url = format!("etcd://{server}");
    let mut connected = None;
    eventually(SOON * 2, "etcd is up", async || {
        connected = Client::connect(&url).await.ok();
        connected.is_some()
    })
    .await;
    let client = connected.expect("just made");
    for count in [2, 9, 32] {
        let names: Vec<_> = (0..count).map(|number| format!("lock-{number:02}")).collect();
        let all = within(SOON, "the locks are free", client.lock_all(&names)).await.unwrap();
        assert_eq!(all.guards().len(), count);
        assert!(client.try_lock_all(&names).await.unwrap().is_none());
        all.unlock().await.unwrap();
        let all = client.try_lock_all(&names).await.unwrap().expect("the locks are free");
        assert!(all.is_valid());
        all.unlock().await.unwrap();
    }
    client.close().await.unwrap();
}

/// Emits the cases, which the model passes, too.
macro_rules! answer_cases {
    ($harness:ty) => {
        $crate::common::own_cases! { $harness, beside_others,
            a_stale_reply_grants_nothing,
            a_stale_read_behind_junk_grants_nothing,
            a_stale_list_is_refused,
        }

        $crate::common::own_cases! { $harness, alone,
            a_waiter_survives_a_compaction,
            leases_expire_if_the_grant_reply_is_lost,
        }
    };
}

pub(crate) use answer_cases;

answer_cases!(Etcd);

pub(crate) mod cases {
    use super::*;

    /// Members have replied from a state older than the request
    /// (<https://github.com/etcd-io/etcd/issues/20418>). A reply that shows an empty queue from
    /// then grants nothing.
    pub(crate) async fn a_stale_reply_grants_nothing<const KIND: usize>(t: &Case<Server<KIND>>) {
        let proxies = t.proxies().await;
        let builder = t.builder_for(&proxies.url()).recheck_interval(Duration::from_millis(200));
        let (client, other) = (t.connect(builder).await, t.client().await);
        let guard = other.mutex("stale").lock().await.unwrap();
        let before = FORGED.load(SeqCst);
        // The reply to the join is forged, too.
        proxies.set(&Mode::Forge(of_long_ago));
        let waiter = t.enqueue(&client, "stale").await;
        eventually(SOON, "stale replies are sent", async || FORGED.load(SeqCst) >= before + 5)
            .await;
        waiter.waits_behind(&guard, Duration::from_millis(500)).await;
        assert_eq!(t.keys().await.len(), 2);
        proxies.set(&Mode::Pass);
        release_both(guard, waiter).await;
    }

    /// If a key without a lease is just ahead of a waiter, the waiter reads the keys before it in
    /// another request. A stale reply to this request shows no holder.
    pub(crate) async fn a_stale_read_behind_junk_grants_nothing<const KIND: usize>(
        t: &Case<Server<KIND>>,
    ) {
        let proxies = t.proxies().await;
        let (client, other) = (t.connect(t.builder_for(&proxies.url())).await, t.client().await);
        let guard = other.mutex("emptied").lock().await.unwrap();
        let junk = format!("{}/emptied/junk", t.namespace);
        t.store.put(junk.as_str(), "", None).await;
        let before = EMPTIED.load(SeqCst);
        proxies.set(&Mode::Forge(empty_of_long_ago));
        let waiter = t.enqueue(&client, "emptied").await;
        eventually(SOON, "stale replies are sent", async || EMPTIED.load(SeqCst) >= before + 3)
            .await;
        waiter.waits_behind(&guard, Duration::from_millis(500)).await;
        proxies.set(&Mode::Pass);
        t.store.erase(&junk).await;
        release_both(guard, waiter).await;
    }

    /// A client that has only read a queue knows how current the next read must be.
    pub(crate) async fn a_stale_list_is_refused<const KIND: usize>(t: &Case<Server<KIND>>) {
        let proxies = t.proxies().await;
        let builder = t.builder_for(&proxies.url()).request_timeout(Duration::from_secs(1));
        let (client, other) = (t.connect(builder).await, t.client().await);
        let guard = other.mutex("listed").lock().await.unwrap();
        let mutex = client.mutex("listed");
        let length = async || within(SOON, "a reply", mutex.queue()).await.map(|all| all.len());
        assert_eq!(length().await.unwrap(), 1);
        proxies.set(&Mode::Forge(empty_of_long_ago));
        let error = length().await.expect_err("the reply is older than the first one");
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        proxies.set(&Mode::Pass);
        assert_eq!(length().await.unwrap(), 1);
        guard.unlock().await.unwrap();
    }

    /// While the waiter is disconnected, its predecessor releases, and a compaction removes the
    /// event.
    pub(crate) async fn a_waiter_survives_a_compaction<const KIND: usize>(t: &Case<Server<KIND>>) {
        let proxies = t.proxies().await;
        let (client, other) = (t.connect(t.builder_for(&proxies.url())).await, t.client().await);
        let (guard, waiter) = t.contended(&other, &client, "compacted").await;
        proxies.set(&Mode::Refuse);
        guard.unlock().await.unwrap();
        let mut raw = t.store.client();
        let deleted = raw.get("any", None).await.unwrap().header().unwrap().revision();
        raw.put(format!("{}-later", t.namespace), "", None).await.unwrap();
        raw.delete(format!("{}-later", t.namespace), None).await.unwrap();
        raw.compact(deleted + 1, Some(CompactionOptions::new().with_physical())).await.unwrap();
        proxies.set(&Mode::Pass);
        waiter.served().await;
    }

    /// Each lease whose reply was lost has its own id, and no client renews it.
    pub(crate) async fn leases_expire_if_the_grant_reply_is_lost<const KIND: usize>(
        t: &Case<Server<KIND>>,
    ) {
        let raw = t.store.client();
        let leases = async || -> HashSet<i64> {
            raw.lease_client()
                .leases()
                .await
                .unwrap()
                .leases()
                .iter()
                .map(|lease| lease.id())
                .collect()
        };
        let before = leases().await;
        let proxies = t.proxies().await;
        proxies.set(&Mode::BlackholeToClient);
        for _ in 0..10 {
            let builder = t.builder_for(&proxies.url()).session_ttl(t.store.min_ttl());
            let connecting = builder.connect_timeout(Duration::from_millis(200)).connect();
            within(SOON, "connecting times out", connecting).await.expect_err("no reply arrives");
        }
        let left: HashSet<_> = leases().await.difference(&before).copied().collect();
        println!("{} leases", left.len());
        assert!(left.len() >= 5, "{} leases: too few grants lost their reply", left.len());
        let limit = t.store.min_ttl() + t.store.grace();
        eventually(limit, "the leases have expired", async || leases().await.is_disjoint(&left))
            .await;
        proxies.set(&Mode::Pass);
    }
}
