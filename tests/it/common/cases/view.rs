//! Reading a lock's queue, and requesting its release.

use std::{
    future::pending,
    time::{Duration, SystemTime},
};

use distlock::{Client, Error, LockGuard, QueueEntry, QueueWatch, ReleaseRequest};

use crate::common::{Case, SOON, Sessions, eventually, handover, release, within};

async fn owned(t: &Case, owner: &str) -> Client {
    t.connect(t.builder().owner(owner)).await
}

fn owners(entries: &[QueueEntry]) -> Vec<&str> {
    entries.iter().map(QueueEntry::owner).collect()
}

/// Waits until the queue is shown in this order, and skips earlier states.
async fn shows(queue: &mut QueueWatch, expected: &[&str]) -> Vec<QueueEntry> {
    let shown = async {
        loop {
            let entries = queue.next().await.expect("the client is open");
            if owners(&entries) == expected {
                return entries;
            }
        }
    };
    within(SOON, &format!("the queue is {expected:?}"), shown).await
}

async fn requested(guard: &LockGuard) -> ReleaseRequest {
    within(SOON, "the request reaches the holder", guard.release_requested()).await
}

async fn not_requested(guard: &LockGuard) {
    let received =
        tokio::time::timeout(Duration::from_millis(400), guard.release_requested()).await;
    assert!(received.is_err(), "received {received:?}");
}

pub(crate) async fn holder_is_returned_with_owner_and_token(t: &Case) {
    let (one, two) = (owned(t, "one").await, owned(t, "two\nlines").await);
    assert_eq!(one.mutex("m").holder().await.expect("a reply"), None);
    for (client, other, owner) in [(&one, &two, "one"), (&two, &one, "two\nlines")] {
        let guard = client.mutex("m").lock().await.expect("granted");
        for reader in [client, other] {
            let holder = reader.mutex("m").holder().await.expect("a reply").expect("there is one");
            assert_eq!((holder.position(), holder.owner()), (0, owner));
            assert_eq!(
                (holder.fencing_token(), holder.key()),
                (guard.fencing_token(), guard.key())
            );
            assert_eq!(holder.is_own(), std::ptr::eq(reader, client));
            // The store may run on another machine, whose clock may differ.
            let age = SystemTime::now()
                .duration_since(holder.since().expect("known"))
                .unwrap_or_default();
            assert!(age < Duration::from_secs(3600), "{age:?}");
        }
        guard.unlock().await.expect("released");
    }
}

pub(crate) async fn a_lock_is_seen_free_held_and_free_again(t: &Case) {
    let clients = t.clients::<2>().await;
    let mutexes = clients.each_ref().map(|client| client.mutex("m"));
    for turn in 0..4 {
        for mutex in &mutexes {
            assert_eq!(mutex.holder().await.expect("a reply"), None);
        }
        let guard = mutexes[turn % 2].lock().await.expect("granted");
        for (place, mutex) in mutexes.iter().enumerate() {
            let holder = mutex.holder().await.expect("a reply").expect("the lock is held");
            assert_eq!(holder.key(), guard.key());
            assert_eq!(holder.is_own(), place == turn % 2);
        }
        guard.unlock().await.expect("released");
    }
}

pub(crate) async fn queue_is_returned_in_order(t: &Case) {
    let clients = [owned(t, "a").await, owned(t, "b").await, owned(t, "c").await];
    assert!(clients[0].mutex("m").queue().await.expect("a reply").is_empty());
    let guard = clients[0].mutex("m").lock().await.expect("granted");
    let waiters = t.enqueue_all([1, 2, 1, 0].map(|client| &clients[client]), "m").await;
    let queue = clients[1].mutex("m").queue().await.expect("a reply");
    assert_eq!(owners(&queue), ["a", "b", "c", "b", "a"]);
    assert_eq!(queue.iter().map(QueueEntry::position).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(
        queue.iter().map(QueueEntry::is_own).collect::<Vec<_>>(),
        [false, true, false, true, false]
    );
    assert!(queue.is_sorted_by(|a, b| a.fencing_token() < b.fencing_token()), "{queue:?}");
    assert_eq!(queue[0].key(), guard.key());
    guard.unlock().await.expect("released");
    for (entry, waiter) in queue[1..].iter().zip(waiters) {
        assert_eq!(entry.key(), waiter.key);
        let guard = waiter.granted().await;
        assert_eq!(
            entry.fencing_token(),
            guard.fencing_token(),
            "the entry has the token of the later grant"
        );
        guard.unlock().await.expect("released");
    }
}

pub(crate) async fn a_waiter_sees_itself_move_up(t: &Case) {
    let (one, two) = (owned(t, "one").await, owned(t, "two").await);
    let mut queue = two.mutex("m").watch_queue().expect("a good name");
    assert!(within(SOON, "the empty queue is shown", queue.next()).await.expect("open").is_empty());
    let guard = one.mutex("m").lock().await.expect("granted");
    shows(&mut queue, &["one"]).await;
    let between = t.enqueue(&one, "m").await;
    shows(&mut queue, &["one", "one"]).await;
    let waiter = t.enqueue(&two, "m").await;
    let position = |entries: &[QueueEntry]| {
        entries.iter().find(|entry| entry.is_own()).map(QueueEntry::position)
    };
    assert_eq!(position(&shows(&mut queue, &["one", "one", "two"]).await), Some(2));
    between.cancel();
    assert_eq!(position(&shows(&mut queue, &["one", "two"]).await), Some(1));
    guard.unlock().await.expect("released");
    assert_eq!(position(&shows(&mut queue, &["two"]).await), Some(0));
    let guard = waiter.granted().await;
    // Without a change, the watch returns nothing.
    let same = tokio::time::timeout(Duration::from_millis(300), queue.next()).await;
    assert!(same.is_err(), "{same:?}");
    guard.unlock().await.expect("released");
    shows(&mut queue, &[]).await;
}

pub(crate) async fn a_watched_queue_outlives_its_session(t: &Case<dyn Sessions>) {
    let (one, two) = (owned(t, "one").await, owned(t, "two").await);
    let mut queue = two.mutex("m").watch_queue().expect("a good name");
    shows(&mut queue, &[]).await;
    let anchor = two.mutex("anchor").lock().await.expect("granted");
    t.store.end_session_of(anchor.key()).await;
    within(SOON, "the session has ended", anchor.lost()).await;
    drop(anchor);
    let guard = one.mutex("m").lock().await.expect("granted");
    shows(&mut queue, &["one"]).await;
    guard.unlock().await.expect("released");
    shows(&mut queue, &[]).await;
    two.close().await.expect("closed");
    assert_eq!(within(SOON, "the stream ends", queue.next()).await, None);
    let error = two.mutex("m").queue().await.expect_err("closed");
    assert!(matches!(error, Error::Closed), "{error:?}");
}

pub(crate) async fn a_request_reaches_the_holder_with_its_reason(t: &Case) {
    let (one, two) = (owned(t, "one").await, owned(t, "two").await);
    let guard = one.mutex("m").lock().await.expect("granted");
    let unconcerned = one.mutex("other").lock().await.expect("granted");
    not_requested(&guard).await;
    let reason = "two lines,\nand an umläut";
    let (request, asked) = tokio::join!(requested(&guard), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        two.mutex("m").request_release(reason).await
    });
    assert!(asked.expect("a reply"));
    assert_eq!((request.reason(), request.owner()), (reason, "two"));
    assert_eq!(requested(&guard).await, request, "the request is kept");
    not_requested(&unconcerned).await;
    // Repeated requests, and requests of the holder's own client, change nothing.
    assert!(two.mutex("m").request_release("again").await.expect("a reply"));
    assert!(one.mutex("m").request_release("own").await.expect("a reply"));
    assert_eq!(requested(&guard).await, request);
    assert!(guard.is_valid(), "a request does not revoke the lock");
    // Requests are not waiters.
    assert_eq!(owners(&two.mutex("m").queue().await.expect("a reply")), ["one"]);
    release([guard, unconcerned]).await;
}

pub(crate) async fn a_request_does_not_reach_the_next_holder(t: &Case) {
    let [one, two] = t.clients().await;
    for next in [&two, &one] {
        let (guard, waiter) = t.contended(&one, next, "m").await;
        assert!(two.mutex("m").request_release("let go").await.expect("a reply"));
        requested(&guard).await;
        let guard = handover(guard, waiter).await;
        not_requested(&guard).await;
        guard.unlock().await.expect("released");
        // A later hold may have the same key, and has no request.
        let guard = one.mutex("m").lock().await.expect("granted");
        not_requested(&guard).await;
        guard.unlock().await.expect("released");
    }
}

pub(crate) async fn a_request_needs_a_holder(t: &Case) {
    let client = t.client().await;
    let mutex = client.mutex("m");
    assert!(!mutex.request_release("no holder").await.expect("a reply"));
    t.queue_of(0).await;
    let error = mutex.request_release("x".repeat(1_001)).await.expect_err("too long");
    assert!(matches!(error, Error::InvalidArgument { argument: "reason", .. }), "{error:?}");
    let guard = mutex.lock().await.expect("granted");
    let reason = "x".repeat(1_000);
    assert!(mutex.request_release(&reason).await.expect("a reply"));
    assert_eq!(requested(&guard).await.reason(), reason);
    guard.unlock().await.expect("released");
    let errors = [
        client.mutex("").queue().await.expect_err("no name"),
        client.mutex("").watch_queue().expect_err("no name"),
        client.mutex("").request_release("x").await.expect_err("no name"),
    ];
    for error in errors {
        assert!(matches!(error, Error::InvalidArgument { argument: "name", .. }), "{error:?}");
    }
}

pub(crate) async fn a_request_reaches_every_holder_of_the_other_primitives(t: &Case) {
    let client = t.client().await;
    let (config, jobs) = (client.rw_lock("m"), client.semaphore("m", 2));
    let election = client.election("m");
    for asked in [
        config.request_release("no holder").await,
        jobs.request_release("no holder").await,
        election.request_release("no holder").await,
    ] {
        assert!(!asked.expect("a reply"));
    }
    let readers = [config.read().await.expect("granted"), config.read().await.expect("granted")];
    let permits = [jobs.acquire().await.expect("granted"), jobs.acquire().await.expect("granted")];
    let leadership = election.campaign("me").await.expect("elected");
    assert!(config.request_release("readers").await.expect("a reply"));
    assert!(jobs.request_release("permits").await.expect("a reply"));
    assert!(election.request_release("leader").await.expect("a reply"));
    for reader in readers {
        assert_eq!(requested(&reader).await.reason(), "readers");
        reader.unlock().await.expect("released");
    }
    for permit in permits {
        assert_eq!(requested(&permit).await.reason(), "permits");
        permit.release().await.expect("released");
    }
    assert_eq!(requested(&leadership).await.reason(), "leader");
    leadership.resign().await.expect("resigned");
    let writer = config.write().await.expect("granted");
    not_requested(&writer).await;
    assert!(config.request_release("writer").await.expect("a reply"));
    assert_eq!(requested(&writer).await.reason(), "writer");
    writer.unlock().await.expect("released");
    client.close().await.expect("closed");
}

pub(crate) async fn release_requests_are_deleted_with_the_hold(t: &Case<dyn Sessions>) {
    let [one, two] = t.clients().await;
    let guard = one.mutex("m").lock().await.expect("granted");
    for _ in 0..3 {
        assert!(two.mutex("m").request_release("let go").await.expect("a reply"));
    }
    assert_eq!(t.keys().await.len(), 4);
    guard.unlock().await.expect("released");
    t.queue_of(0).await;
    // Requests are deleted with the holder's session.
    let guard = one.mutex("m").lock().await.expect("granted");
    assert!(two.mutex("m").request_release("let go").await.expect("a reply"));
    t.store.end_session_of(guard.key()).await;
    t.queue_of(0).await;
    within(SOON, "the holder is notified", guard.lost()).await;
    // A former holder receives no request.
    tokio::select! {
        request = guard.release_requested() => panic!("received {request:?}"),
        () = tokio::time::sleep(Duration::from_millis(200)) => {}
    }
    // A dropped request leaves nothing, at whatever point it is dropped.
    let guard = one.mutex("m").lock().await.expect("granted");
    for micros in [1, 20, 100, 500] {
        tokio::select! {
            biased;
            () = tokio::time::sleep(Duration::from_micros(micros)) => {}
            () = async {
                let _ = two.mutex("m").request_release("hasty").await;
                pending().await
            } => {}
        }
    }
    guard.unlock().await.expect("released");
    eventually(SOON, "no keys are left", async || t.keys().await.is_empty()).await;
}
