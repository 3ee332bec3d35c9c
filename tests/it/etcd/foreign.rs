//! What others put into the queues: other languages' waiters, which count, and junk, which does
//! not.

use std::{process::Stdio, time::Duration};

use distlock::{Error, LostReason};
use distlock_testkit::{docker::container, proxy::Mode};
use etcd_client::{DeleteOptions, PutOptions, Txn, TxnOp};
use tokio::process::{Child, Command};

use crate::common::{
    Case, Harness, beside_others,
    case::{SOON, eventually, throughout, within},
    etcd::Etcd,
};

/// `etcdctl lock`, which is Go's `clientv3/concurrency`: the one on the path, else the one in a
/// server's container.
async fn etcdctl(t: &Case, arguments: &[&str]) -> Child {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcdctl_waits_for_distlock() {
    beside_others::<Etcd>(async |t| {
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
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn distlock_waits_for_etcdctl() {
    beside_others::<Etcd>(async |t| {
        let client = t.client().await;
        // It holds the one lock for as long as it waits for the other.
        let until = client.mutex("until").lock().await.unwrap();
        let [shared, other] = ["shared", "until"].map(|name| format!("{}/{name}", t.namespace));
        let child =
            etcdctl(t, &["lock", &shared, "etcdctl", "lock", &other, "etcdctl", "version"]).await;
        t.queue_of(3).await;
        assert!(client.mutex("shared").try_lock().await.unwrap().is_none());
        let waiter = t.enqueue(&client, "shared").await;
        throughout(Duration::from_millis(500), "distlock waits", async || waiter.waits()).await;
        until.unlock().await.unwrap();
        granted(child).await;
        waiter.served().await;
    })
    .await;
}

/// Without a lease a key would stay for ever: it is nobody's place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_without_a_lease_are_passed_over() {
    beside_others::<Etcd>(async |t| {
        let etcd = Etcd::start().await;
        let prefix = format!("{}/junk/", t.namespace);
        let mut raw = etcd.client();
        let mut junk: Vec<Vec<u8>> =
            ["", "x", "694d-", "a/b", "zzzz"].map(|name| format!("{prefix}{name}").into()).into();
        junk.push([prefix.as_bytes(), &[0xff, 0xfe, 0]].concat());
        for key in &junk {
            raw.put(key.clone(), vec![b'v'; 1 << 20], None).await.unwrap();
        }
        let client = t.client().await;
        let guard = within(SOON, "junk is no holder", client.mutex("junk").try_lock())
            .await
            .unwrap()
            .unwrap();
        let mutex = client.mutex("junk");
        let waiter = tokio::spawn(async move { mutex.lock().await });
        // And when it comes between a holder and a waiter.
        raw.put(format!("{prefix}between"), "", None).await.unwrap();
        junk.push(format!("{prefix}between").into());
        guard.unlock().await.unwrap();
        let guard = within(SOON, "the waiter is granted", waiter).await.unwrap().unwrap();
        guard.unlock().await.unwrap();
        for key in junk {
            assert_eq!(
                raw.delete(key, None).await.unwrap().deleted(),
                1,
                "junk is not ours to delete"
            );
        }
    })
    .await;
}

/// In a long queue a newcomer is told who came before it by a key that others do not write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_waiter_in_a_long_queue_has_its_turn() {
    beside_others::<Etcd>(async |t| {
        let mut raw = Etcd::start().await.client();
        let lease = raw.lease_grant(30, None).await.unwrap().id();
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
        raw.put(foreign.as_str(), "", Some(PutOptions::new().with_lease(lease))).await.unwrap();
        let last = t.enqueue(&client, "long").await;
        guard.unlock().await.unwrap();
        within(SOON, "all have their turn", queue.join_all()).await;
        throughout(
            Duration::from_millis(500),
            "the last one waits for the foreign one",
            async || last.waits(),
        )
        .await;
        assert_eq!(raw.delete(foreign, None).await.unwrap().deleted(), 1);
        last.served().await;
    })
    .await;
}

/// A foreign client may overwrite the key that names the last waiter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tail_that_names_no_key_of_the_queue_is_passed_over() {
    beside_others::<Etcd>(async |t| {
        let mut raw = Etcd::start().await.client();
        let client = t.client().await;
        let elsewhere = format!("{}/other/~7-x", t.namespace);
        let deeper = format!("{}/tail/~7-x/y", t.namespace);
        for value in ["é".as_bytes(), &[0xff], b"", b"/", elsewhere.as_bytes(), deeper.as_bytes()]
        {
            let guard = client.mutex("tail").lock().await.unwrap();
            raw.put(format!("{}/tail!/tail", t.namespace), value, None).await.unwrap();
            let waiter = t.enqueue(&client, "tail").await;
            throughout(Duration::from_millis(100), "it waits", async || waiter.waits()).await;
            guard.unlock().await.unwrap();
            waiter.served().await;
        }
    })
    .await;
}

/// With a lease it is somebody's place, whatever it is called and however much is in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_waiters_keep_their_places() {
    beside_others::<Etcd>(async |t| {
        let etcd = Etcd::start().await;
        let mut raw = etcd.client();
        let lease = raw.lease_grant(30, None).await.unwrap().id();
        let leased = || Some(PutOptions::new().with_lease(lease));
        let prefix = format!("{}/foreign/", t.namespace);
        let odd = [prefix.as_bytes(), &[0xff, 0xfe]].concat();
        let client = t.client().await;
        for key in [
            format!("{prefix}{lease:x}").into_bytes(),
            format!("{prefix}not hex at all").into(),
            odd,
        ] {
            raw.put(key.clone(), vec![b'v'; 1 << 20], leased()).await.unwrap();
            assert!(client.mutex("foreign").try_lock().await.unwrap().is_none());
            let mutex = client.mutex("foreign");
            let waiter = tokio::spawn(async move { mutex.lock().await });
            throughout(Duration::from_millis(300), "it has its turn first", async || {
                !waiter.is_finished()
            })
            .await;
            raw.delete(key, None).await.unwrap();
            within(SOON, "the waiter is granted", waiter)
                .await
                .unwrap()
                .unwrap()
                .unlock()
                .await
                .unwrap();
        }
        raw.lease_revoke(lease).await.unwrap();
    })
    .await;
}

/// Ten thousand keys and six megabytes, more than an answer may be long: those without a lease are
/// passed over, those with one are waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_keys_are_read_a_few_at_a_time() {
    beside_others::<Etcd>(async |t| {
        let mut raw = Etcd::start().await.client();
        let lease = raw.lease_grant(30, None).await.unwrap().id();
        let client = t.client().await;
        for (name, options) in
            [("junk", None), ("queue", Some(PutOptions::new().with_lease(lease)))]
        {
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
            let mutex = client.mutex(name);
            let waiter = tokio::spawn(async move { mutex.lock().await });
            if name == "queue" {
                throughout(Duration::from_millis(300), "it has its turn last", async || {
                    !waiter.is_finished()
                })
                .await;
                raw.lease_revoke(lease).await.unwrap();
            }
            within(SOON, "it is granted", waiter).await.unwrap().unwrap().unlock().await.unwrap();
        }
        let junk = format!("{}/junk/", t.namespace);
        assert_eq!(
            raw.delete(junk, Some(DeleteOptions::new().with_prefix())).await.unwrap().deleted(),
            10_000
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_find_the_owner_in_the_key() {
    beside_others::<Etcd>(async |t| {
        let etcd = Etcd::start().await;
        let client = t.connect(t.builder().owner("worker-7 of gaia")).await;
        let guard = client.mutex("owned").lock().await.unwrap();
        let (lease, value) = etcd.get(guard.key()).await;
        assert!(String::from_utf8(value).unwrap().contains("worker-7 of gaia"));
        assert!(
            guard.key().starts_with(&format!("{}/owned/~{lease:x}-", t.namespace)),
            "{}",
            guard.key()
        );
        let unnamed = t.client().await.mutex("unnamed").lock().await.unwrap();
        let (_, value) = etcd.get(unnamed.key()).await;
        let process = std::process::id().to_string();
        assert!(
            String::from_utf8(value).unwrap().contains(&process),
            "by default it is the host and the process"
        );
    })
    .await;
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
        let mut raw = Etcd::start().await.client();
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcdctl_is_seen_in_the_queue() {
    beside_others::<Etcd>(async |t| {
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
    })
    .await;
}

/// `etcdctl elect`, which is Go's `concurrency.Election`: it stands for election among ours, and
/// each sees whom the other has for a leader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcdctl_takes_part_in_elections() {
    beside_others::<Etcd>(async |t| {
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
        throughout(Duration::from_millis(300), "we wait", async || next.waits()).await;
        // In the container it would not hear of the end of `docker exec`.
        t.store.end_session_of(leader.key()).await;
        let next = next.granted().await;
        assert_eq!(election.leader().await.unwrap().unwrap().token(), next.fencing_token());
        next.resign().await.unwrap();
        let _ = candidate.start_kill();
        eventually(SOON, "nobody is left", async || t.keys().await.is_empty()).await;
    })
    .await;
}

/// What a key of another client's is for nobody knows: it is alone where readers share, and has a
/// permit where permits are counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_not_shared_with() {
    beside_others::<Etcd>(async |t| {
        let (etcd, client) = (Etcd::start().await, t.client().await);
        let mut raw = etcd.client();
        let lease = raw.lease_grant(30, None).await.unwrap().id();
        let options = || Some(PutOptions::new().with_lease(lease));
        for dir in ["m!rw", "m!permits"] {
            raw.put(format!("{}/{dir}/stranger", t.namespace), "", options()).await.unwrap();
        }
        assert!(client.rw_lock("m").try_read().await.unwrap().is_none());
        assert!(client.semaphore("m", 1).try_acquire().await.unwrap().is_none());
        let permit = client.semaphore("m", 2).acquire().await.unwrap();
        let lock = client.rw_lock("m");
        let reader = t.stands(async move { lock.read().await }).await;
        throughout(Duration::from_millis(200), "it waits", async || reader.waits()).await;
        raw.lease_revoke(lease).await.unwrap();
        reader.granted().await.unlock().await.unwrap();
        permit.release().await.unwrap();
    })
    .await;
}

/// For all others such a key is nobody's place: its owner is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_written_over_without_its_lease_is_lost() {
    beside_others::<Etcd>(async |t| {
        let (etcd, [one, two, three]) = (Etcd::start().await, t.clients().await);
        let mut raw = etcd.client();
        let guard = one.mutex("over").lock().await.unwrap();
        let waiter = t.enqueue(&two, "over").await;
        let last = t.enqueue(&three, "over").await;
        raw.put(waiter.key.as_str(), "note", None).await.unwrap();
        let old = waiter.key.clone();
        // A write that keeps the lease is nothing to it.
        let options = PutOptions::new().with_ignore_lease();
        raw.put(guard.key(), "note", Some(options)).await.unwrap();
        throughout(Duration::from_millis(700), "it is held", async || {
            guard.is_valid() && last.waits()
        })
        .await;
        guard.unlock().await.unwrap();
        let error = waiter.result(SOON).await.expect_err("its place is nobody's");
        assert!(matches!(error, Error::Evicted { .. }), "{error:?}");
        raw.delete(old, None).await.unwrap();
        let guard = last.granted().await;
        throughout(Duration::from_millis(700), "it is held", async || guard.is_valid()).await;
        raw.put(guard.key(), "note", None).await.unwrap();
        let reason = within(Duration::from_secs(1), "its holder is told", guard.lost()).await;
        assert_eq!(reason, LostReason::KeyDeleted);
        let key = guard.key().to_owned();
        guard.unlock().await.expect_err("it was lost");
        eventually(SOON, "it is deleted all the same", async || !t.keys().await.contains(&key))
            .await;
        // Released before anybody has noticed.
        let guard = one.mutex("over").lock().await.unwrap();
        raw.put(guard.key(), "note", None).await.unwrap();
        let error = guard.unlock().await.expect_err("others have passed it over");
        assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    })
    .await;
}

/// The same of a holder's key while it is held, and the event is lost: the name is there, and
/// stands at the end of the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_key_was_put_again_is_told() {
    beside_others::<Etcd>(async |t| {
        let (etcd, proxies) = (Etcd::start().await, t.proxies().await);
        let mut raw = etcd.client();
        let recheck = Duration::from_secs(2);
        let client = t.connect(t.builder_for(&proxies.url()).recheck_interval(recheck)).await;
        // Whether the first request was applied is not known: it may be yet.
        let lock = client.mutex("again");
        proxies.set(&Mode::SwallowReply);
        let guard = lock.lock().await.unwrap();
        proxies.set(&Mode::Pass);
        let key = guard.key().to_owned();
        let lease = raw.get(key.as_str(), None).await.unwrap().kvs()[0].lease();
        tokio::time::sleep(Duration::from_secs(1)).await; // its key is watched by then
        proxies.set(&Mode::DropOne(key.as_bytes().into()));
        raw.delete(key.as_str(), None).await.unwrap();
        let options = PutOptions::new().with_lease(lease);
        raw.put(key.as_str(), "late", Some(options)).await.unwrap();
        throughout(Duration::from_millis(200), "the event is lost", async || guard.is_valid())
            .await;
        let limit = recheck.mul_f64(1.25) + Duration::from_secs(1);
        let reason = within(limit, "the holder is told", guard.lost()).await;
        assert_eq!(reason, LostReason::KeyDeleted);
    })
    .await;
}

/// The reply to the first request to join is lost, so it may be served at any later time: here so
/// long after the release that only a recheck can find the key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_served_long_after_its_release_is_removed() {
    beside_others::<Etcd>(async |t| {
        let (etcd, proxies, other) = (Etcd::start().await, t.proxies().await, t.client().await);
        let mut raw = etcd.client();
        let recheck = Duration::from_secs(2);
        let client = t.connect(t.builder_for(&proxies.url()).recheck_interval(recheck)).await;
        let lock = client.mutex("late");
        proxies.set(&Mode::SwallowReply);
        let guard = lock.lock().await.unwrap();
        proxies.set(&Mode::Pass);
        let key = guard.key().to_owned();
        let lease = raw.get(key.as_str(), None).await.unwrap().kvs()[0].lease();
        guard.unlock().await.unwrap();
        // The looks soon after the doubt are over.
        tokio::time::sleep(Duration::from_secs(15)).await;
        let options = PutOptions::new().with_lease(lease);
        raw.put(key.as_str(), "late", Some(options)).await.unwrap();
        let limit = recheck.mul_f64(1.25) + Duration::from_secs(1);
        let next = other.mutex("late").lock_timeout(limit).await.unwrap();
        let next = next.expect("the late key does not block the lock for long");
        assert!(!t.keys().await.contains(&key));
        // The session lives on, and its own later keys are left alone.
        next.unlock().await.unwrap();
        let again = lock.lock().await.unwrap();
        throughout(limit, "what is held stays", async || again.is_valid()).await;
        again.unlock().await.unwrap();
    })
    .await;
}

/// As if an operator had deleted it, and a request to join had come late after that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_put_again_is_another_one() {
    beside_others::<Etcd>(async |t| {
        let (etcd, client) = (Etcd::start().await, t.client().await);
        let mut raw = etcd.client();
        let guard = client.mutex("again").lock().await.unwrap();
        let key = guard.key().to_owned();
        let found = raw.get(key.as_str(), None).await.unwrap();
        let lease = found.kvs()[0].lease();
        raw.delete(key.as_str(), None).await.unwrap();
        let options = PutOptions::new().with_lease(lease);
        raw.put(key.as_str(), "late", Some(options)).await.unwrap();
        let error = guard.unlock().await.expect_err("its key was deleted");
        assert!(matches!(error, Error::Lost { .. }), "{error:?}");
        eventually(SOON, "it is deleted all the same", async || !t.keys().await.contains(&key))
            .await;
    })
    .await;
}

/// The same of one that waits for a read-write lock, which looks at the whole queue: the late key
/// stands behind one that joined meanwhile, and a token of its own first key would go back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_key_was_put_again_is_not_that_one() {
    beside_others::<Etcd>(async |t| {
        let etcd = Etcd::start().await;
        let mut raw = etcd.client();
        let clients = [t.client().await, t.client().await, t.client().await];
        let [holder, waiter, next] = clients.each_ref().map(|client| client.rw_lock("again"));
        let guard = holder.write().await.unwrap();
        let waiting = tokio::spawn(async move { waiter.write().await.map(drop) });
        let key = within(SOON, "it waits", async {
            loop {
                let keys = t.keys().await;
                if let Some(key) = keys.into_iter().find(|key| key != guard.key()) {
                    return key;
                }
                tokio::task::yield_now().await;
            }
        })
        .await;
        let lease = raw.get(key.as_str(), None).await.unwrap().kvs()[0].lease();
        raw.delete(key.as_str(), None).await.unwrap();
        let following = tokio::spawn(async move { next.write().await });
        eventually(SOON, "another one joins", async || t.keys().await.len() == 2).await;
        let options = PutOptions::new().with_lease(lease);
        raw.put(key.as_str(), "late", Some(options)).await.unwrap();
        guard.unlock().await.unwrap();
        let following = following.await.unwrap().unwrap();
        following.unlock().await.unwrap();
        let error = waiting.await.unwrap().expect_err("its key was deleted");
        assert!(matches!(error, Error::Evicted { .. }), "{error:?}");
    })
    .await;
}
