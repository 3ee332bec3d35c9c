//! `memory://` passes every case, and keeps its guarantees to unit tests.

use std::{
    borrow::Cow,
    future::{Future, pending},
    sync::{Arc, Mutex},
    task::{Context, Waker},
    time::{Duration, Instant},
};

use crate::common::{SOON, conformance, eventually, memory::Memory, secrets::Shown};
use distlock::{Client, Error, LostReason, Tls, memory::Space};
use tokio::time::timeout;

conformance!(Memory);

#[tokio::test]
async fn spaces_are_independent_and_shared_by_name() {
    let clients = ["memory://apart-1", "memory://apart-2", "memory://apart-1"].map(Client::connect);
    let [one, other, again] = clients;
    let (one, other, again) = (one.await.unwrap(), other.await.unwrap(), again.await.unwrap());
    let guard = one.mutex("a").lock().await.unwrap();
    assert!(other.mutex("a").try_lock().await.unwrap().is_some());
    assert!(again.mutex("a").try_lock().await.unwrap().is_none());
    assert_eq!(Space::named("apart-1").keys(), [guard.key()]);
    assert_eq!(Space::named("apart-1").sessions(), 2);
    assert_eq!(Space::named("apart-3").sessions(), 0);
}

#[tokio::test]
async fn a_url_may_be_any_string_type() {
    let url = String::from("memory://strings");
    let clients = [
        Client::connect("memory://strings").await,
        Client::connect(&url).await,
        Client::connect(&&*url).await,
        Client::connect(Cow::from("memory://strings")).await,
        Client::builder(&url).connect().await,
        Client::builder(url.as_str()).connect().await,
        Client::builder(url).connect().await,
    ];
    assert!(clients.iter().all(Result::is_ok));
    assert_eq!(Space::named("strings").sessions(), clients.len());
}

/// A unit test can see the effects of an hour without waiting.
#[tokio::test]
async fn the_stores_clock_can_be_set_forward() {
    let space = Space::named("advance");
    let builder = || Client::builder("memory://advance").session_ttl(Duration::from_secs(3600));
    let (client, other) = (builder().connect().await.unwrap(), builder().connect().await.unwrap());
    let guard = client.mutex("a").lock().await.unwrap();
    space.advance(Duration::from_secs(3500));
    assert!(guard.is_valid());
    let start = Instant::now();
    space.advance(Duration::from_secs(3500));
    assert_eq!(space.sessions(), 0);
    assert!(space.keys().is_empty());
    let next = other.mutex("a").lock().await.unwrap();
    assert!(next.is_valid());
    assert_eq!(guard.lost().await, LostReason::SessionExpired);
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "the holder was notified after {:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn a_run_that_is_cancelled_waits_for_its_resignation() {
    let space = Space::named("cancelled-run");
    let client = Client::connect("memory://cancelled-run").await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let (leads, led) = tokio::sync::oneshot::channel();
    let leads = Arc::new(Mutex::new(Some(leads)));
    let mut running = tokio::spawn(async move {
        let work = async |_| {
            leads.lock().unwrap().take().unwrap().send(()).unwrap();
            pending::<()>().await;
        };
        client.election("a").run("candidate", async { drop(stopped.await) }, work).await
    });
    led.await.unwrap();
    space.set_reachable(false);
    drop(stop);
    let early = timeout(Duration::from_millis(100), &mut running).await;
    assert!(early.is_err(), "the store has not confirmed the resignation: {early:?}");
    space.set_reachable(true);
    assert_eq!(running.await.unwrap().unwrap(), None);
    assert!(space.keys().is_empty());
}

/// What happens to the session afterwards changes no reason.
#[tokio::test]
async fn the_first_reason_is_kept() {
    let space = Space::named("first-reason");
    let client = Client::connect("memory://first-reason").await.unwrap();
    let (evicted, released) = (client.mutex("a").lock().await.unwrap(), client.mutex("b"));
    let released = released.lock().await.unwrap();
    let handles = [evicted.handle(), released.handle()];
    space.delete(evicted.key());
    assert_eq!(evicted.lost().await, LostReason::Evicted);
    released.unlock().await.unwrap();
    client.close().await.unwrap();
    for (handle, reason) in handles.iter().zip([LostReason::Evicted, LostReason::Released]) {
        assert_eq!(handle.lost_reason(), Some(reason));
        assert_eq!(handle.lost().await, reason);
    }
    assert_eq!(evicted.run(pending::<()>()).await.unwrap_err().reason, LostReason::Evicted);
}

/// A token is cancelled by a loss, by a release, and at once if the lock is already lost.
#[tokio::test]
async fn a_cancellation_token_is_cancelled_with_the_lock() {
    let space = Space::named("cancellation-token");
    let client = Client::connect("memory://cancellation-token").await.unwrap();
    let guard = client.mutex("a").lock().await.unwrap();
    let (token, handle) = (guard.cancellation_token(), guard.handle());
    assert!(!token.is_cancelled() && handle.lost_reason().is_none());
    space.delete(guard.key());
    token.cancelled().await;
    assert_eq!(handle.lost_reason(), Some(LostReason::Evicted));
    assert!(guard.cancellation_token().is_cancelled());
    drop(guard);

    let guard = client.mutex("a").lock().await.unwrap();
    let token = guard.cancellation_token();
    assert!(!token.is_cancelled());
    guard.unlock().await.unwrap();
    timeout(Duration::from_secs(5), token.cancelled()).await.expect("the lock is released");
    // The token's task does not keep the client alive.
    client.close().await.unwrap();
}

/// A follower sees how long its stream has been cut off, and the stream continues when the store
/// replies.
#[tokio::test]
async fn a_stream_returns_how_long_it_is_cut_off() {
    let space = Space::named("cut-off");
    let builder = Client::builder("memory://cut-off").recheck_interval(Duration::from_millis(20));
    let client = builder.connect().await.unwrap();
    let mut leaders = client.election("a").observe().unwrap();
    let mut queue = client.mutex("a").watch_queue().unwrap();
    let leadership = client.election("a").campaign("one").await.unwrap();
    assert_eq!(leaders.next().await.unwrap().value(), b"one");
    assert!(queue.next().await.unwrap().is_empty());
    assert!(leaders.cut_off_for().is_none() && queue.cut_off_for().is_none());

    space.set_reachable(false);
    let short = Duration::from_millis(10);
    while leaders.cut_off_for().is_none() || queue.cut_off_for().is_none() {
        assert!(timeout(short, leaders.next()).await.is_err());
        assert!(timeout(short, queue.next()).await.is_err());
    }
    let cut_off = leaders.cut_off_for().unwrap();
    tokio::time::sleep(short).await;
    assert!(
        leaders.cut_off_for().unwrap() >= cut_off + short,
        "the time counts from the first failure"
    );

    space.set_reachable(true);
    while leaders.cut_off_for().is_some() || queue.cut_off_for().is_some() {
        assert!(timeout(short, leaders.next()).await.is_err(), "the leader is the same");
        assert!(timeout(short, queue.next()).await.is_err(), "the queue is the same");
    }
    leadership.resign().await.unwrap();
}

#[tokio::test]
async fn requests_are_counted() {
    let space = Space::named("counted");
    let client = Client::connect("memory://counted").await.unwrap();
    let before = space.requests();
    let guard = client.mutex("a").lock().await.unwrap();
    assert!(client.mutex("a").try_lock().await.unwrap().is_none());
    guard.unlock().await.unwrap();
    let after = space.requests();
    assert_eq!(
        (after.joins - before.joins, after.reads - before.reads, after.deletes - before.deletes),
        (2, 0, 1)
    );
}

#[tokio::test]
async fn free_locks_are_taken_in_one_request() {
    let space = Space::named("counted-all");
    let client = Client::connect("memory://counted-all").await.unwrap();
    let before = space.requests();
    let all = client.lock_all(["c", "a", "b"]).await.unwrap();
    assert_eq!(space.requests().joins - before.joins, 1);
    assert!(client.try_lock_all(["a", "d"]).await.unwrap().is_none());
    all.unlock().await.unwrap();
    let after = space.requests();
    // One join for all three locks, and then one for each lock up to the first held one.
    assert_eq!((after.joins - before.joins, after.deletes - before.deletes), (3, 3));
}

#[tokio::test]
async fn deletes_return_whether_there_was_a_key() {
    let space = Space::named("operator");
    assert!(!space.delete("/distlock/a/x"));
    assert!(!space.expire_session("/distlock/a/x"));
    assert!(!space.disconnect_session("/distlock/a/x"));
    let client = Client::connect("memory://operator").await.unwrap();
    let guard = client.mutex("a").lock().await.unwrap();
    assert!(space.delete(guard.key()));
    assert!(!space.delete(guard.key()));
}

/// `memory://` has neither users nor a network, so these options are refused.
#[tokio::test]
async fn options_of_a_network_are_refused() {
    let builder = || Client::builder("memory://refused");
    let error = builder().credentials("user", "password").connect().await.unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { argument: "credentials", .. }), "{error:?}");
    let error = builder().tls(Tls::new()).connect().await.unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { argument: "tls", .. }), "{error:?}");
}

/// Secrets in any part of the options, with clients that connect and clients that fail. No server
/// is queried.
#[tokio::test]
async fn output_contains_no_secret() {
    let mut shown = Shown::default();
    for url in [
        "memory://root:s3cret@secrets",
        "memory://secrets?password=s3cret",
        "memory://secrets-1",
        "etcd://root:s3cret@h",
        "etcd://root:s3cret",
        "etcd://h?password=s3cret",
        "zk://h,root:s3/cret@h",
        "zk:/root:s3cret@h",
        "root:s3cret",
    ] {
        shown.builder(&Client::builder(url)).await;
        for user in ["root", "", "root:s3cret"] {
            shown.builder(&Client::builder(url).credentials(user, "s3cret")).await;
        }
        // Keys that are malformed, misplaced, or without line breaks.
        let (key, begin) = ("c2VjcmV0LXNlY3JldA==", "-----BEGIN PRIVATE KEY-----");
        let certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----";
        for key in [
            key.to_owned(),
            format!("{begin} {key} -----END PRIVATE KEY-----"),
            format!("{begin}\n{key}\n"),
            format!("{begin}\n{key}\n-----END PRIVATE KEY-----\n"),
            format!("-----BEGIN {key} PRIVATE KEY-----{key}"),
        ] {
            for tls in [
                Tls::new().client_identity(certificate, &key),
                Tls::new().ca_certificate(certificate).client_identity(certificate, &key),
                Tls::new()
                    .ca_certificate(format!("{certificate} {key}"))
                    .client_identity(&key, certificate),
                Tls::new().ca_certificate(format!("{key} {certificate}")),
                Tls::new()
                    .ca_certificate(certificate)
                    .client_identity(format!("{key} {certificate}"), &key),
            ] {
                shown.debug("Tls", &tls);
                let builder =
                    Client::builder(url).tls(tls).connect_timeout(Duration::from_millis(100));
                shown.builder(&builder).await;
            }
        }
    }
    shown.has_none_of(&["s3cret", "cret@h", "c2VjcmV0"]);
}

/// Joins of callers that gave up before their request was sent would be ahead of all later waiters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_of_dropped_callers_are_not_sent() {
    let space = Space::named("dropped-callers");
    let client = Client::connect("memory://dropped-callers").await.unwrap();
    let mutex = client.mutex("a");
    space.set_reachable(false);
    let mut dropped: Vec<_> = (0..2000).map(|_| Box::pin(mutex.lock())).collect();
    for future in &mut dropped {
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        // Tokio limits the work of a task between yields.
        tokio::task::yield_now().await;
    }
    drop(dropped);
    space.set_reachable(true);
    let guard = tokio::time::timeout(Duration::from_secs(20), mutex.lock())
        .await
        .expect("the lock is granted")
        .unwrap();
    guard.unlock().await.unwrap();
    // The joins that were under way are sent, and none later.
    let quiet = async || {
        let before = space.requests();
        tokio::time::sleep(Duration::from_millis(300)).await;
        space.requests() == before
    };
    eventually(SOON, "no more requests are sent", quiet).await;
    let joins = space.requests().joins;
    println!("{joins} joins were sent");
    assert!(joins < 400, "{joins} joins were sent");
    client.close().await.unwrap();
}

/// The given runtime renews the session, which is lost with the runtime.
#[tokio::test]
async fn a_runtime_that_is_handed_in_does_the_work() {
    let ttl = Duration::from_secs(1);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let builder = Client::builder("memory://handed-in").session_ttl(ttl);
    let client = builder.clone().runtime(runtime.handle().clone()).connect().await.unwrap();
    let guard = client.mutex("a").lock().await.unwrap();
    assert!(tokio::time::timeout(ttl * 2, guard.lost()).await.is_err(), "the session is renewed");
    assert!(guard.is_valid());
    runtime.shutdown_background();
    let shut_down = Instant::now();
    eventually(SOON, "the lock is lost with its runtime", async || !guard.is_valid()).await;
    assert!(shut_down.elapsed() < ttl * 2);
    let other = builder.connect().await.unwrap();
    let next = other.mutex("a").lock_timeout(ttl * 5).await.unwrap();
    next.expect("the key was deleted with its session").unlock().await.unwrap();
}

#[tokio::test]
async fn a_runtime_without_timers_is_refused() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let builder = Client::builder("memory://timers").runtime(runtime.handle().clone());
    let error = builder.connect().await.unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { argument: "runtime", .. }), "{error}");
    assert_eq!(Space::named("timers").sessions(), 0);
    runtime.shutdown_background();
}

/// A session that was just lost still has its keys. They are deleted once the client is closed.
#[tokio::test]
async fn closing_waits_for_sessions_that_were_lost() {
    let (space, ttl) = (Space::named("lost-before"), Duration::from_secs(3));
    // The store ends the session a tenth of a TTL later, which a busy machine may miss.
    for _ in 0..5 {
        let builder = Client::builder("memory://lost-before").session_ttl(ttl);
        let client = builder.request_timeout(Duration::from_millis(50)).connect().await.unwrap();
        let guard = client.mutex("a").lock().await.unwrap();
        assert!(space.disconnect_session(guard.key()));
        assert_eq!(guard.lost().await, LostReason::DeadlinePassed);
        let next = client.mutex("b").lock().await.unwrap();
        let both = space.keys() == [guard.key(), next.key()];
        client.close().await.unwrap();
        assert!(space.keys().is_empty(), "{:?}", space.keys());
        if both {
            return;
        }
    }
    panic!("the lost session had always ended");
}
