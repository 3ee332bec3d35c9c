//! What others put into the queues: other languages' waiters, which count, and junk, which does
//! not.

use std::{process::Stdio, time::Duration};

use distlock::{Error, LostReason};
use distlock_testkit::{docker::container, proxy::Mode};
use etcd_client::{DeleteOptions, PutOptions, Txn, TxnOp};
use tokio::process::{Child, Command};

use crate::common::{
    Case, Harness, SOON, Sessions, Waiter, beside_others, cases::strangers, etcd::Etcd, eventually,
    own_cases, release_both, throughout, within,
};

/// `etcdctl lock`, which is Go's `clientv3/concurrency`: the one on the path, else the one in a
/// server's container.
async fn etcdctl(t: &Case<Etcd>, arguments: &[&str]) -> Child {
    let on_path = Command::new("etcdctl").arg("version").output().await.is_ok();
    let mut command = if on_path {
        let mut command = Command::new("etcdctl");
        command.arg(t.store.url().replace("etcd://", "--endpoints="));
        command
    } else {
        let mut command = Command::new("docker");
        command.args(["exec", &container("etcd1"), "etcdctl"]);
        command
    };
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command.spawn().expect("etcdctl or docker is there")
}

/// Its last words, which it has only when it was granted the lock.
async fn granted(child: Child) {
    let output = within(SOON, "etcdctl ends", child.wait_with_output()).await.expect("its output");
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("etcdctl version"), "{output:?}");
}

/// The token is what a transaction can compare: the create revision of the holder's key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_can_be_fenced_by_key_and_token() {
    use etcd_client::{Compare, CompareOp};
    beside_others::<Etcd>(async |t| {
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
    })
    .await;
}

own_cases! { Etcd, beside_others,
    etcdctl_waits_for_distlock,
    distlock_waits_for_etcdctl,
    keys_without_a_lease_are_passed_over,
    a_foreign_waiter_in_a_long_queue_has_its_turn,
    a_tail_that_names_no_key_of_the_queue_is_passed_over,
    foreign_waiters_keep_their_places,
    ten_thousand_keys_are_read_a_few_at_a_time,
    operators_find_the_owner_in_the_key,
    etcdctl_is_seen_in_the_queue,
    etcdctl_takes_part_in_elections,
    strangers_are_not_shared_with,
    a_key_written_over_without_its_lease_is_lost,
    a_holder_whose_key_was_put_again_is_notified,
    a_join_served_long_after_its_release_is_removed,
    a_key_put_again_is_another_one,
    a_waiter_whose_key_was_put_again_is_not_that_one,
}

mod cases {
    use super::*;

    pub(super) async fn etcdctl_waits_for_distlock(t: &Case<Etcd>) {
        let client = t.client().await;
        let guard = client.mutex("shared").lock().await.unwrap();
        let name = format!("{}/shared", t.namespace);
        let mut child = etcdctl(t, &["lock", &name, "etcdctl", "version"]).await;
        t.queue_of(2).await;
        throughout(Duration::from_millis(500), "etcdctl waits", async || {
            child.try_wait().unwrap().is_none()
        })
        .await;
        assert!(guard.is_valid());
        guard.unlock().await.unwrap();
        granted(child).await;
    }

    pub(super) async fn distlock_waits_for_etcdctl(t: &Case<Etcd>) {
        let client = t.client().await;
        // It holds the one lock for as long as it waits for the other.
        let until = client.mutex("until").lock().await.unwrap();
        let [shared, other] = ["shared", "until"].map(|name| format!("{}/{name}", t.namespace));
        let child =
            etcdctl(t, &["lock", &shared, "etcdctl", "lock", &other, "etcdctl", "version"]).await;
        t.queue_of(3).await;
        assert!(client.mutex("shared").try_lock().await.unwrap().is_none());
        let waiter = t.enqueue(&client, "shared").await;
        waiter.waits_throughout(Duration::from_millis(500), "distlock waits").await;
        until.unlock().await.unwrap();
        granted(child).await;
        waiter.served().await;
    }

    /// Without a lease a key would stay for ever: it is nobody's place.
    pub(super) async fn keys_without_a_lease_are_passed_over(t: &Case<Etcd>) {
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
        // And when it comes between a holder and a waiter.
        t.store.put(format!("{prefix}between"), "", None).await;
        junk.push(format!("{prefix}between").into());
        release_both(guard, waiter).await;
        for key in junk {
            let deleted = raw.delete(key, None).await.unwrap().deleted();
            assert_eq!(deleted, 1, "junk is not ours to delete");
        }
    }

    /// In a long queue a newcomer is told who came before it by a key that others do not write.
    pub(super) async fn a_foreign_waiter_in_a_long_queue_has_its_turn(t: &Case<Etcd>) {
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
        within(SOON, "all have their turn", queue.join_all()).await;
        last.waits_throughout(Duration::from_millis(500), "the last one waits for the foreign one")
            .await;
        t.store.delete_key(&foreign).await;
        last.served().await;
    }

    /// A foreign client may overwrite the key that names the last waiter.
    pub(super) async fn a_tail_that_names_no_key_of_the_queue_is_passed_over(t: &Case<Etcd>) {
        let client = t.client().await;
        let elsewhere = format!("{}/other/~7-x", t.namespace);
        let deeper = format!("{}/tail/~7-x/y", t.namespace);
        for value in ["é".as_bytes(), &[0xff], b"", b"/", elsewhere.as_bytes(), deeper.as_bytes()]
        {
            let guard = client.mutex("tail").lock().await.unwrap();
            t.store.put(format!("{}/tail!/tail", t.namespace), value, None).await;
            let waiter = t.enqueue(&client, "tail").await;
            waiter.waits_throughout(Duration::from_millis(100), "it waits").await;
            release_both(guard, waiter).await;
        }
    }

    /// With a lease it is somebody's place, whatever it is called and however much is in it.
    pub(super) async fn foreign_waiters_keep_their_places(t: &Case<Etcd>) {
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
            waiter.waits_throughout(Duration::from_millis(300), "it has its turn first").await;
            raw.delete(key, None).await.unwrap();
            waiter.served().await;
        }
        raw.lease_revoke(lease).await.unwrap();
    }

    /// Ten thousand keys and six megabytes, more than an answer may be long: those without a lease
    /// are passed over, those with one are waited for.
    pub(super) async fn ten_thousand_keys_are_read_a_few_at_a_time(t: &Case<Etcd>) {
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
                within(SOON, "an answer", client.mutex(name).try_lock()).await.expect("no error");
            assert_eq!(free.is_some(), name == "junk");
            drop(free);
            let waiter = Waiter::of(&client, name);
            if name == "queue" {
                waiter.waits_throughout(Duration::from_millis(300), "it has its turn last").await;
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

    pub(super) async fn operators_find_the_owner_in_the_key(t: &Case<Etcd>) {
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
            "by default it is the host and the process"
        );
    }

    pub(super) async fn etcdctl_is_seen_in_the_queue(t: &Case<Etcd>) {
        let client = t.client().await;
        let mutex = client.mutex("shared");
        let guard = mutex.lock().await.unwrap();
        let mut watch = mutex.watch_queue().unwrap();
        assert_eq!(watch.next().await.unwrap().len(), 1);
        let name = format!("{}/shared", t.namespace);
        let child = etcdctl(t, &["lock", &name, "etcdctl", "version"]).await;
        let queue = within(SOON, "etcdctl is seen", watch.next()).await.unwrap();
        let [holder, waiter] = &queue[..] else { panic!("{queue:?}") };
        assert!(holder.is_own() && holder.key() == guard.key() && holder.since().is_some());
        assert!(
            !waiter.is_own()
                && waiter.position() == 1
                && waiter.owner().is_empty()
                && waiter.since().is_none()
        );
        assert!(waiter.token() > guard.fencing_token());
        guard.unlock().await.unwrap();
        granted(child).await;
    }

    /// `etcdctl elect`, which is Go's `concurrency.Election`: it stands for election among ours,
    /// and each sees whom the other has for a leader.
    pub(super) async fn etcdctl_takes_part_in_elections(t: &Case<Etcd>) {
        let client = t.client().await;
        let election = client.election("e");
        let leadership = election.campaign("ours").await.unwrap();
        let name = format!("{}/e!election", t.namespace);
        let mut candidate = etcdctl(t, &["elect", &name, "theirs"]).await;
        t.queue_of(2).await;
        let heard =
            etcdctl(t, &["get", "--prefix", "--print-value-only", &format!("{name}/~")]).await;
        let heard = within(SOON, "etcdctl reads", heard.wait_with_output()).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&heard.stdout).trim(), "ours");
        let mut leaders = election.observe().unwrap();
        assert_eq!(leaders.next().await.unwrap().value_str(), Some("ours"));
        leadership.resign().await.unwrap();
        let leader = within(SOON, "etcdctl leads", leaders.next()).await.unwrap();
        assert_eq!(leader.value_str(), Some("theirs"));
        let waiting = client.clone();
        let next =
            t.stands(async move { waiting.election("e").campaign("ours again").await }).await;
        next.waits_throughout(Duration::from_millis(300), "we wait").await;
        // In the container it would not hear of the end of `docker exec`.
        t.store.end_session_of(leader.key()).await;
        let next = next.granted().await;
        assert_eq!(election.leader().await.unwrap().unwrap().token(), next.fencing_token());
        next.resign().await.unwrap();
        let _ = candidate.start_kill();
        eventually(SOON, "nobody is left", async || t.keys().await.is_empty()).await;
    }

    /// What a key of another client's is for nobody knows: it is alone where readers share, and has
    /// a permit where permits are counted.
    pub(super) async fn strangers_are_not_shared_with(t: &Case<Etcd>) {
        let lease = t.store.lease().await;
        let keys = ["m!rw", "m!permits"].map(|dir| format!("{}/{dir}/stranger", t.namespace));
        for key in &keys {
            t.store.put(key.as_str(), "", Some(lease)).await;
        }
        strangers::are_not_shared_with(t, keys).await;
    }

    /// For all others such a key is nobody's place: its owner is told.
    pub(super) async fn a_key_written_over_without_its_lease_is_lost(t: &Case<Etcd>) {
        let [one, two, three] = t.clients().await;
        let (guard, waiter) = t.contended(&one, &two, "over").await;
        let last = t.enqueue(&three, "over").await;
        t.store.put(waiter.key.as_str(), "note", None).await;
        let old = waiter.key.clone();
        // A write that keeps the lease is nothing to it.
        let options = PutOptions::new().with_ignore_lease();
        t.store.client().put(guard.key(), "note", Some(options)).await.unwrap();
        last.waits_behind(&guard, Duration::from_millis(700)).await;
        guard.unlock().await.unwrap();
        let error = waiter.result(SOON).await.expect_err("its place is nobody's");
        assert!(matches!(error, Error::Evicted { .. }), "{error:?}");
        t.store.erase(&old).await;
        let guard = last.granted().await;
        throughout(Duration::from_millis(700), "it is held", async || guard.is_valid()).await;
        t.store.put(guard.key(), "note", None).await;
        let reason = within(Duration::from_secs(1), "its holder is told", guard.lost()).await;
        assert_eq!(reason, LostReason::KeyDeleted);
        let key = guard.key().to_owned();
        guard.unlock().await.expect_err("it was lost");
        eventually(SOON, "it is deleted all the same", async || !t.keys().await.contains(&key))
            .await;
        // Released before anybody has noticed.
        let guard = one.mutex("over").lock().await.unwrap();
        t.store.put(guard.key(), "note", None).await;
        let error = guard.unlock().await.expect_err("others have passed it over");
        assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    }

    /// The same of a holder's key while it is held, and the event is lost: the name is there, and
    /// stands at the end of the queue.
    pub(super) async fn a_holder_whose_key_was_put_again_is_notified(t: &Case<Etcd>) {
        let proxies = t.proxies().await;
        let recheck = Duration::from_secs(2);
        let client = t.connect(t.builder_for(&proxies.url()).recheck_interval(recheck)).await;
        // Whether the first request was applied is not known: it may be yet.
        let lock = client.mutex("again");
        proxies.set(&Mode::SwallowReply);
        let guard = lock.lock().await.unwrap();
        proxies.set(&Mode::Pass);
        let key = guard.key().to_owned();
        let lease = t.store.session_of(&key).await;
        tokio::time::sleep(Duration::from_secs(1)).await; // its key is watched by then
        proxies.set(&Mode::DropOne(key.as_bytes().into()));
        t.store.delete_key(&key).await;
        t.store.put(key.as_str(), "late", Some(lease)).await;
        throughout(Duration::from_millis(200), "the event is lost", async || guard.is_valid())
            .await;
        let limit = recheck.mul_f64(1.25) + Duration::from_secs(1);
        let reason = within(limit, "the holder is told", guard.lost()).await;
        assert_eq!(reason, LostReason::KeyDeleted);
    }

    /// The reply to the first request to join is lost, so it may be served at any later time: here
    /// so long after the release that only a recheck can find the key.
    pub(super) async fn a_join_served_long_after_its_release_is_removed(t: &Case<Etcd>) {
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
        // The looks soon after the doubt are over.
        tokio::time::sleep(Duration::from_secs(15)).await;
        t.store.put(key.as_str(), "late", Some(lease)).await;
        let limit = recheck.mul_f64(1.25) + Duration::from_secs(1);
        let next = other.mutex("late").lock_timeout(limit).await.unwrap();
        let next = next.expect("the late key does not block the lock for long");
        assert!(!t.keys().await.contains(&key));
        // The session lives on, and its own later keys are left alone.
        next.unlock().await.unwrap();
        let again = lock.lock().await.unwrap();
        throughout(limit, "what is held stays", async || again.is_valid()).await;
        again.unlock().await.unwrap();
    }

    /// As if an operator had deleted it, and a request to join had come late after that.
    pub(super) async fn a_key_put_again_is_another_one(t: &Case<Etcd>) {
        let client = t.client().await;
        let guard = client.mutex("again").lock().await.unwrap();
        let key = guard.key().to_owned();
        let lease = t.store.session_of(&key).await;
        t.store.delete_key(&key).await;
        t.store.put(key.as_str(), "late", Some(lease)).await;
        let error = guard.unlock().await.expect_err("its key was deleted");
        assert!(matches!(error, Error::Lost { .. }), "{error:?}");
        eventually(SOON, "it is deleted all the same", async || !t.keys().await.contains(&key))
            .await;
    }

    /// The same of one that waits for a read-write lock, which looks at the whole queue: the late
    /// key stands behind one that joined meanwhile, and a token of its own first key would go back.
    pub(super) async fn a_waiter_whose_key_was_put_again_is_not_that_one(t: &Case<Etcd>) {
        let clients = t.clients::<3>().await;
        let [holder, waiter, next] = clients.each_ref().map(|client| client.rw_lock("again"));
        let guard = holder.write().await.unwrap();
        let waiting = t.stands(async move { waiter.write().await }).await;
        let key = waiting.key.clone();
        let lease = t.store.session_of(&key).await;
        t.store.delete_key(&key).await;
        let following = t.stands(async move { next.write().await }).await;
        t.store.put(key.as_str(), "late", Some(lease)).await;
        release_both(guard, following).await;
        let error = waiting.result(SOON).await.expect_err("its key was deleted");
        assert!(matches!(error, Error::Evicted { .. }), "{error:?}");
    }
}
