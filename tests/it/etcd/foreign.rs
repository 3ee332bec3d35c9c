//! Keys of other clients in the queues: waiters, which count, and junk, which does not.

use std::time::Duration;

use distlock::{Error, LostReason};
use distlock_testkit::proxy::Mode;
use etcd_client::{Compare, CompareOp, DeleteOptions, PutOptions, Txn, TxnOp};

use crate::common::{
    Case, Harness, SOON, Sessions, Waiter,
    cases::strangers,
    etcd::{Etcd, Server},
    eventually, release_both, throughout, within,
};

/// Emits the cases, which the model passes, too.
macro_rules! foreign_cases {
    ($harness:ty) => {
        $crate::common::own_cases! { $harness, beside_others,
            transactions_can_be_fenced_by_key_and_token,
            keys_without_a_lease_are_passed_over,
            a_foreign_waiter_in_a_long_queue_has_its_turn,
            a_tail_that_names_no_key_of_the_queue_is_passed_over,
            foreign_waiters_keep_their_places,
            ten_thousand_keys_are_read_a_few_at_a_time,
            operators_find_the_owner_in_the_key,
            foreign_entries_are_exclusive,
            a_key_written_over_without_its_lease_is_lost,
            a_key_written_over_with_another_lease_is_lost,
            a_holder_whose_key_was_put_again_is_notified,
            a_recheck_reads_more_than_four_mebibytes_of_keys,
            a_join_served_long_after_its_release_is_removed,
            a_recreated_key_is_not_the_holders,
            a_waiter_whose_key_was_recreated_is_evicted,
        }
    };
}

pub(crate) use foreign_cases;

foreign_cases!(Etcd);

pub(crate) mod cases {
    use super::*;

    /// A transaction can compare the token: it is the create revision of the holder's key.
    pub(crate) async fn transactions_can_be_fenced_by_key_and_token<const KIND: usize>(
        t: &Case<Server<KIND>>,
    ) {
        let client = t.client().await;
        let guard = client.mutex("fenced").lock().await.unwrap();
        let (key, token) =
            (guard.key().to_owned(), i64::try_from(guard.fencing_token().as_u64()).unwrap());
        let mut raw = t.store.client();
        let write = || {
            let held = Compare::create_revision(key.as_str(), CompareOp::Equal, token);
            Txn::new().when([held]).and_then([TxnOp::get(key.as_str(), None)])
        };
        assert!(raw.txn(write()).await.unwrap().succeeded());
        guard.unlock().await.unwrap();
        assert!(!raw.txn(write()).await.unwrap().succeeded());
        eventually(SOON, "nothing is left", async || t.keys().await.is_empty()).await;
    }

    /// A key without a lease never expires, so it holds no place in the queue.
    pub(crate) async fn keys_without_a_lease_are_passed_over<const KIND: usize>(
        t: &Case<Server<KIND>>,
    ) {
        let etcd = &t.store;
        let prefix = format!("{}/junk/", t.namespace);
        let mut raw = etcd.client();
        let mut junk: Vec<Vec<u8>> =
            ["", "x", "694d-", "a/b", "zzzz"].map(|name| format!("{prefix}{name}").into()).into();
        junk.push([prefix.as_bytes(), &[0xff, 0xfe, 0]].concat());
        for key in &junk {
            t.store.put(key.clone(), vec![b'v'; 1 << 20], None).await;
        }
        let client = t.client().await;
        let guard = within(SOON, "junk is no holder", client.mutex("junk").try_lock())
            .await
            .unwrap()
            .unwrap();
        let waiter = Waiter::of(&client, "junk");
        // Junk is ignored, too, if it appears between a holder and a waiter.
        t.store.put(format!("{prefix}between"), "", None).await;
        junk.push(format!("{prefix}between").into());
        release_both(guard, waiter).await;
        for key in junk {
            let deleted = raw.delete(key, None).await.unwrap().deleted();
            assert_eq!(deleted, 1, "junk is not ours to delete");
        }
    }

    /// In a long queue a new waiter reads its predecessor from a tail key, which other clients do
    /// not write.
    pub(crate) async fn a_foreign_waiter_in_a_long_queue_has_its_turn<const KIND: usize>(
        t: &Case<Server<KIND>>,
    ) {
        let mut raw = t.store.client();
        let lease = t.store.lease().await;
        let client = t.client().await;
        let guard = client.mutex("long").lock().await.unwrap();
        let mutex = client.mutex("long");
        let mut queue = tokio::task::JoinSet::new();
        for mutex in std::iter::repeat_n(mutex, 60) {
            queue.spawn(async move { mutex.lock().await.unwrap().unlock().await.unwrap() });
        }
        t.queue_of(61).await;
        let tail = raw.get(format!("{}/long!/tail", t.namespace), None).await.unwrap();
        assert_eq!(tail.kvs().len(), 1, "the queue is long");
        let foreign = format!("{}/long/{lease:x}", t.namespace);
        t.store.put(foreign.as_str(), "", Some(lease)).await;
        let last = t.enqueue(&client, "long").await;
        guard.unlock().await.unwrap();
        within(SOON, "all waiters are granted", queue.join_all()).await;
        last.waits_throughout(Duration::from_millis(500), "the last one waits for the foreign one")
            .await;
        t.store.delete_key(&foreign).await;
        last.served().await;
    }

    /// Another client may overwrite the key that names the last waiter.
    pub(crate) async fn a_tail_that_names_no_key_of_the_queue_is_passed_over<const KIND: usize>(
        t: &Case<Server<KIND>>,
    ) {
        let client = t.client().await;
        let elsewhere = format!("{}/other/~7-x", t.namespace);
        let deeper = format!("{}/tail/~7-x/y", t.namespace);
        for value in ["é".as_bytes(), &[0xff], b"", b"/", elsewhere.as_bytes(), deeper.as_bytes()]
        {
            let guard = client.mutex("tail").lock().await.unwrap();
            t.store.put(format!("{}/tail!/tail", t.namespace), value, None).await;
            let waiter = t.enqueue(&client, "tail").await;
            waiter.waits_throughout(Duration::from_millis(100), "the waiter waits").await;
            release_both(guard, waiter).await;
        }
    }

    /// A key with a lease holds a place, whatever its name and however large its value.
    pub(crate) async fn foreign_waiters_keep_their_places<const KIND: usize>(
        t: &Case<Server<KIND>>,
    ) {
        let mut raw = t.store.client();
        let lease = t.store.lease().await;
        let prefix = format!("{}/foreign/", t.namespace);
        let odd = [prefix.as_bytes(), &[0xff, 0xfe]].concat();
        let client = t.client().await;
        for key in [
            format!("{prefix}{lease:x}").into_bytes(),
            format!("{prefix}not hex at all").into(),
            odd,
        ] {
            t.store.put(key.clone(), vec![b'v'; 1 << 20], Some(lease)).await;
            assert!(client.mutex("foreign").try_lock().await.unwrap().is_none());
            let waiter = Waiter::of(&client, "foreign");
            waiter.waits_throughout(Duration::from_millis(300), "the foreign key is ahead").await;
            raw.delete(key, None).await.unwrap();
            waiter.served().await;
        }
        raw.lease_revoke(lease).await.unwrap();
    }

    /// Ten thousand keys and six megabytes, more than a reply may have. Keys without a lease are
    /// ignored, keys with a lease are waited for.
    pub(crate) async fn ten_thousand_keys_are_read_a_few_at_a_time<const KIND: usize>(
        t: &Case<Server<KIND>>,
    ) {
        let mut raw = t.store.client();
        let lease = t.store.lease().await;
        let client = t.client().await;
        let leased = PutOptions::new().with_lease(lease);
        for (name, options) in [("junk", None), ("queue", Some(leased))] {
            for hundred in 0..100 {
                let put = |key: usize| {
                    let key = format!("{}/{name}/{hundred:02}{key:02}", t.namespace);
                    TxnOp::put(key, vec![b'v'; 600], options.clone())
                };
                raw.txn(Txn::new().and_then((0..100).map(put).collect::<Vec<_>>())).await.unwrap();
            }
            let free =
                within(SOON, "a reply", client.mutex(name).try_lock()).await.expect("no error");
            assert_eq!(free.is_some(), name == "junk");
            drop(free);
            let waiter = Waiter::of(&client, name);
            if name == "queue" {
                waiter
                    .waits_throughout(Duration::from_millis(300), "the foreign keys are ahead")
                    .await;
                raw.lease_revoke(lease).await.unwrap();
            }
            waiter.served().await;
        }
        let junk = format!("{}/junk/", t.namespace);
        assert_eq!(
            raw.delete(junk, Some(DeleteOptions::new().with_prefix())).await.unwrap().deleted(),
            10_000
        );
    }

    pub(crate) async fn operators_find_the_owner_in_the_key<const KIND: usize>(
        t: &Case<Server<KIND>>,
    ) {
        let client = t.connect(t.builder().owner("worker-7 of gaia")).await;
        let guard = client.mutex("owned").lock().await.unwrap();
        let (lease, value) = t.store.get(guard.key()).await;
        assert!(String::from_utf8(value).unwrap().contains("worker-7 of gaia"));
        assert!(
            guard.key().starts_with(&format!("{}/owned/~{lease:x}-", t.namespace)),
            "{}",
            guard.key()
        );
        let unnamed = t.client().await.mutex("unnamed").lock().await.unwrap();
        let (_, value) = t.store.get(unnamed.key()).await;
        let process = std::process::id().to_string();
        assert!(
            String::from_utf8(value).unwrap().contains(&process),
            "the default owner is the host and the process"
        );
    }

    /// The purpose of a foreign key is unknown. It counts as exclusive among readers, and as one
    /// permit of a semaphore.
    pub(crate) async fn foreign_entries_are_exclusive<const KIND: usize>(t: &Case<Server<KIND>>) {
        let lease = t.store.lease().await;
        let keys = ["m!rw", "m!permits"].map(|dir| format!("{}/{dir}/stranger", t.namespace));
        for key in &keys {
            t.store.put(key.as_str(), "", Some(lease)).await;
        }
        strangers::are_not_shared_with(t, keys).await;
    }

    /// Other clients ignore a key without a lease, so its owner must lose it.
    pub(crate) async fn a_key_written_over_without_its_lease_is_lost<const KIND: usize>(
        t: &Case<Server<KIND>>,
    ) {
        let [one, two, three] = t.clients().await;
        let (guard, waiter) = t.contended(&one, &two, "over").await;
        let last = t.enqueue(&three, "over").await;
        t.store.put(waiter.key.as_str(), "note", None).await;
        let old = waiter.key.clone();
        // A write that keeps the lease changes nothing.
        let options = PutOptions::new().with_ignore_lease();
        t.store.client().put(guard.key(), "note", Some(options)).await.unwrap();
        last.waits_behind(&guard, Duration::from_millis(700)).await;
        guard.unlock().await.unwrap();
        let error = waiter.result(SOON).await.expect_err("its key has no lease");
        assert!(matches!(error, Error::Evicted { .. }), "{error:?}");
        t.store.erase(&old).await;
        let guard = last.granted().await;
        throughout(Duration::from_millis(700), "the lock is held", async || guard.is_valid()).await;
        t.store.put(guard.key(), "note", None).await;
        let reason = within(Duration::from_secs(1), "the holder is notified", guard.lost()).await;
        assert_eq!(reason, LostReason::Evicted);
        let key = guard.key().to_owned();
        guard.unlock().await.expect_err("the lock was lost");
        eventually(SOON, "the key is deleted", async || !t.keys().await.contains(&key)).await;
        // Released before the client has noticed.
        let guard = one.mutex("over").lock().await.unwrap();
        t.store.put(guard.key(), "note", None).await;
        let error = guard.unlock().await.expect_err("other clients ignored the key");
        assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    }

    /// The key belongs to another client from then on. The holder is notified by the event of the
    /// write, or, if the key was not watched yet, by the read that begins the watch.
    pub(crate) async fn a_key_written_over_with_another_lease_is_lost<const KIND: usize>(
        t: &Case<Server<KIND>>,
    ) {
        let client = t.client().await;
        let lease = t.store.lease().await;
        for is_watched in [true, false] {
            let guard = client.mutex("taken").lock().await.unwrap();
            if is_watched {
                let held = async || guard.is_valid();
                throughout(Duration::from_millis(700), "the lock is held", held).await;
            }
            t.store.put(guard.key(), "note", Some(lease)).await;
            // The recheck would take at least 20 s.
            let reason = within(SOON, "the holder is notified", guard.lost()).await;
            assert_eq!(reason, LostReason::Evicted);
            let key = guard.key().to_owned();
            guard.unlock().await.expect_err("the lock was lost");
            eventually(SOON, "the key is deleted", async || !t.keys().await.contains(&key)).await;
        }
        t.store.client().lease_revoke(lease).await.unwrap();
    }

    /// A holder's key is deleted and put again while both events are lost: the name exists, at the
    /// end of the queue.
    pub(crate) async fn a_holder_whose_key_was_put_again_is_notified<const KIND: usize>(
        t: &Case<Server<KIND>>,
    ) {
        let proxies = t.proxies().await;
        let recheck = Duration::from_secs(2);
        let client = t.connect(t.builder_for(&proxies.url()).recheck_interval(recheck)).await;
        // The outcome of the first join is unknown: it may still be applied.
        let lock = client.mutex("again");
        proxies.set(&Mode::SwallowReply);
        let guard = lock.lock().await.unwrap();
        proxies.set(&Mode::Pass);
        let key = guard.key().to_owned();
        let lease = t.store.session_of(&key).await;
        tokio::time::sleep(Duration::from_secs(1)).await; // its key is watched by then
        // Either event would make the holder read its key.
        let lost = async || {
            eventually(SOON, "the event is lost", async || proxies.passes()).await;
        };
        proxies.set(&Mode::DropOne(key.as_bytes().into()));
        t.store.delete_key(&key).await;
        lost().await;
        proxies.set(&Mode::DropOne(key.as_bytes().into()));
        t.store.put(key.as_str(), "late", Some(lease)).await;
        lost().await;
        assert!(guard.is_valid(), "the holder was notified by an event");
        proxies.set(&Mode::Pass);
        let limit = recheck.mul_f64(1.25) + Duration::from_secs(1);
        let reason = within(limit, "the holder is notified", guard.lost()).await;
        assert_eq!(reason, LostReason::Evicted);
    }

    /// A session may have so many keys that their names exceed the default limit of replies. The
    /// event of a deletion is lost, so only the recheck can notify the holder.
    pub(crate) async fn a_recheck_reads_more_than_four_mebibytes_of_keys<const KIND: usize>(
        t: &Case<Server<KIND>>,
    ) {
        let proxies = t.proxies().await;
        let recheck = Duration::from_secs(2);
        let client = t.connect(t.builder_for(&proxies.url()).recheck_interval(recheck)).await;
        let guard = client.mutex("many").lock().await.unwrap();
        let key = guard.key().to_owned();
        let lease = t.store.session_of(&key).await;
        for number in 0..100 {
            let name = format!("{}-large/{number:02}{}", t.namespace, "x".repeat(50_000));
            t.store.put(name, "", Some(lease)).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await; // its key is watched by then
        proxies.set(&Mode::DropOne(key.as_bytes().into()));
        t.store.delete_key(&key).await;
        eventually(SOON, "the event is lost", async || proxies.passes()).await;
        // A recheck that was under way may have lost its reply instead of the event.
        let reason = within(recheck * 4, "the holder is notified", guard.lost()).await;
        assert_eq!(reason, LostReason::Evicted);
        drop(guard);
        client.close().await.unwrap();
    }

    /// The reply to the first join is lost, so the join may be served at any later time. Here it is
    /// served so long after the release that only a recheck finds the key.
    pub(crate) async fn a_join_served_long_after_its_release_is_removed<const KIND: usize>(
        t: &Case<Server<KIND>>,
    ) {
        let (proxies, other) = (t.proxies().await, t.client().await);
        let recheck = Duration::from_secs(2);
        let client = t.connect(t.builder_for(&proxies.url()).recheck_interval(recheck)).await;
        let lock = client.mutex("late");
        proxies.set(&Mode::SwallowReply);
        let guard = lock.lock().await.unwrap();
        proxies.set(&Mode::Pass);
        let key = guard.key().to_owned();
        let lease = t.store.session_of(&key).await;
        guard.unlock().await.unwrap();
        // The reads that follow soon after an unknown outcome are over.
        tokio::time::sleep(Duration::from_secs(15)).await;
        t.store.put(key.as_str(), "late", Some(lease)).await;
        let limit = recheck.mul_f64(1.25) + Duration::from_secs(1);
        let next = other.mutex("late").lock_timeout(limit).await.unwrap();
        let next = next.expect("the late key does not block the lock for long");
        assert!(!t.keys().await.contains(&key));
        // The session continues, and its own later keys are kept.
        next.unlock().await.unwrap();
        let again = lock.lock().await.unwrap();
        throughout(limit, "the lock is held", async || again.is_valid()).await;
        again.unlock().await.unwrap();
    }

    /// As if an operator had deleted the key, and a delayed request to join had put it again.
    pub(crate) async fn a_recreated_key_is_not_the_holders<const KIND: usize>(
        t: &Case<Server<KIND>>,
    ) {
        let client = t.client().await;
        let guard = client.mutex("again").lock().await.unwrap();
        let key = guard.key().to_owned();
        let lease = t.store.session_of(&key).await;
        t.store.delete_key(&key).await;
        t.store.put(key.as_str(), "late", Some(lease)).await;
        let error = guard.unlock().await.expect_err("its key was deleted");
        assert!(matches!(error, Error::Lost { .. }), "{error:?}");
        eventually(SOON, "the key is deleted", async || !t.keys().await.contains(&key)).await;
    }

    /// A waiter for a read-write lock reads the whole queue. Its late key is behind a client that
    /// joined after the deletion, so the token of its first key would be too low.
    pub(crate) async fn a_waiter_whose_key_was_recreated_is_evicted<const KIND: usize>(
        t: &Case<Server<KIND>>,
    ) {
        let (proxies, clients) = (t.proxies().await, t.clients::<2>().await);
        let distant = t.connect(t.builder_for(&proxies.url())).await;
        let [holder, next] = clients.each_ref().map(|client| client.rw_lock("again"));
        let guard = holder.write().await.unwrap();
        let waiting = t.stands(async move { distant.rw_lock("again").write().await }).await;
        let key = waiting.key.clone();
        let lease = t.store.session_of(&key).await;
        // A waiter that notices the deletion has left before its key exists again.
        proxies.set(&Mode::Blackhole);
        t.store.delete_key(&key).await;
        let following = t.stands(async move { next.write().await }).await;
        t.store.put(key.as_str(), "late", Some(lease)).await;
        proxies.set(&Mode::Pass);
        release_both(guard, following).await;
        let error = waiting.result(SOON).await.expect_err("its key was deleted");
        assert!(matches!(error, Error::Evicted { .. }), "{error:?}");
    }
}
