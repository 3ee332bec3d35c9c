//! The semaphore: never more permits than its limit, granted one waiter at a time in order of
//! arrival.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use distlock::{Client, Error, Permit};
use tokio::task::JoinSet;

use crate::common::{
    Case, SOON, Sessions, Waiter,
    cases::costs::{sessions_of, settled},
    eventually, release, release_both, throughout, within,
};

async fn waiter(t: &Case, client: &Client, permits: u32, of: u32) -> Waiter<Permit> {
    let semaphore = client.semaphore("permits", of);
    t.stands(async move { semaphore.acquire_many(permits).await }).await
}

async fn acquired(client: &Client, permits: u32, of: u32) -> Permit {
    let semaphore = client.semaphore("permits", of);
    within(SOON, "there are permits", semaphore.acquire_many(permits)).await.expect("granted")
}

pub(crate) async fn granted_permits_never_exceed_the_limit(t: &Case) {
    const LIMIT: u32 = 4;
    let clients = t.clients::<3>().await;
    let (inside, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut contenders = JoinSet::new();
    for contender in 0..30 {
        let semaphore = clients[contender % 3].semaphore("permits", LIMIT);
        let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
        contenders.spawn(async move {
            for _ in 0..3 {
                let permits = 1 + fastrand::u32(..LIMIT) / 2;
                let permit = semaphore.acquire_many(permits).await.expect("granted");
                assert_eq!(permit.permits(), permits);
                let now = inside.fetch_add(permits, SeqCst) + permits;
                assert!(now <= LIMIT, "{now} permits of {LIMIT}");
                most.fetch_max(now, SeqCst);
                tokio::time::sleep(Duration::from_micros(fastrand::u64(..3000))).await;
                assert!(permit.is_valid());
                inside.fetch_sub(permits, SeqCst);
                permit.release().await.expect("released");
            }
        });
    }
    within(SOON * 6, "all are served", contenders.join_all()).await;
    assert!(most.load(SeqCst) > 1, "several permits were out at once");
}

pub(crate) async fn permits_are_given_in_order(t: &Case) {
    let [one, two] = t.clients().await;
    let mut held = vec![acquired(&one, 1, 2).await, acquired(&two, 1, 2).await];
    let mut waiters = Vec::new();
    for place in 0..6 {
        waiters.push(waiter(t, [&one, &two][place % 2], 1, 2).await);
        // The first waiter also has an entry at the permits, and holds the gate.
        t.queue_of(held.len() + waiters.len() + 1).await;
    }
    // Whichever permit is released, the first waiter gets it.
    for round in 0..6 {
        held.swap_remove(round % 2).release().await.expect("released");
        held.push(waiters.remove(0).granted().await);
        assert!(waiters.iter().all(Waiter::waits), "a waiter was granted out of order");
        assert!(held.iter().all(|permit| permit.is_valid()));
    }
    release(held).await;
}

pub(crate) async fn a_waiter_for_many_permits_is_not_overtaken(t: &Case) {
    let [one, two] = t.clients().await;
    let held = [acquired(&one, 1, 3).await, acquired(&two, 1, 3).await];
    let many = waiter(t, &two, 3, 3).await;
    let few = waiter(t, &one, 1, 3).await;
    assert!(
        one.semaphore("permits", 3).try_acquire().await.expect("a reply").is_none(),
        "another waiter is first"
    );
    let waits = async || many.waits() && few.waits();
    throughout(Duration::from_millis(200), "one is not enough", waits).await;
    release(held).await;
    let many = many.granted().await;
    few.waits_throughout(Duration::from_millis(200), "no more permits are free").await;
    release_both(many, few).await;
}

/// As in a rolling change of all processes from 2 permits to 4, and back.
pub(crate) async fn the_smaller_number_of_permits_counts(t: &Case) {
    let [old, new] = t.clients().await;
    for (number, other) in [(2, 4), (4, 2)] {
        let (before, after) = (old.semaphore("permits", number), new.semaphore("permits", other));
        let held = [before.acquire().await.expect("granted"), acquired(&new, 1, other).await];
        assert_eq!(after.permits().await.expect("a reply"), 2);
        assert!(before.try_acquire().await.expect("no error").is_none());
        assert!(after.try_acquire().await.expect("no error").is_none());
        // Three permits are granted at once when no client names two any longer.
        let (waiter, waits) = match other {
            4 => (waiter(t, &new, 3, 4).await, true),
            _ => (waiter(t, &new, 2, 2).await, true),
        };
        assert_eq!(waiter.waits(), waits);
        release(held).await;
        waiter.served().await;
        eventually(SOON, "no keys are left", async || t.keys().await.is_empty()).await;
    }
    assert_eq!(new.semaphore("permits", 4).permits().await.expect("a reply"), 4);
    // The previous number need not be known.
    let held = acquired(&old, 1, 2).await;
    new.semaphore("permits", 5).set_permits(5).await.expect("set");
    for (client, named) in [(&old, 2), (&new, 5)] {
        assert_eq!(client.semaphore("permits", named).permits().await.expect("a reply"), 5);
        acquired(client, 4, named).await.release().await.expect("released");
    }
    held.release().await.expect("released");
    // A client that names a number that was never replaced gets no more permits than that.
    let third = old.semaphore("permits", 3);
    let held = third.acquire_many(3).await.expect("granted");
    assert!(third.try_acquire().await.expect("no error").is_none());
    assert!(new.semaphore("permits", 5).try_acquire().await.expect("no error").is_none());
    held.release().await.expect("released");
    let error = third.acquire_many(4).await.expect_err("there are never so many");
    assert!(matches!(error, Error::InvalidArgument { argument: "permits", .. }), "{error:?}");
    eventually(SOON, "no keys are left", async || t.keys().await.len() <= 1).await;
    t.store.erase(&note(t, "limit=5+2+@1")).await;
}

pub(crate) async fn set_permits_changes_the_limit_for_all_clients(t: &Case) {
    let [one, two, new] = t.clients().await;
    let held = acquired(&one, 1, 1).await;
    let waiters = [waiter(t, &two, 1, 1).await, waiter(t, &one, 1, 1).await];
    two.semaphore("permits", 1).set_permits(4).await.expect("set");
    let mut held = vec![held];
    for waiter in waiters {
        held.push(waiter.granted().await);
    }
    held.push(acquired(&one, 1, 1).await);
    // Clients that name the replaced number follow the change.
    assert!(new.semaphore("permits", 1).try_acquire().await.expect("a reply").is_none());
    assert!(new.semaphore("permits", 4).try_acquire().await.expect("a reply").is_none());
    // With a smaller number, holders keep their permits. The next waiter waits until a permit is
    // free.
    new.semaphore("permits", 4).set_permits(2).await.expect("set");
    let waiter = waiter(t, &new, 1, 1).await;
    assert!(held.iter().all(|permit| permit.is_valid()));
    held.remove(0).release().await.expect("released");
    waiter
        .waits_throughout(Duration::from_millis(200), "three permits are out, and the limit is two")
        .await;
    release(held).await;
    waiter.served().await;
    // The number is kept while the semaphore is unused.
    eventually(SOON, "no keys are left", async || t.keys().await.len() <= 1).await;
    assert!(one.semaphore("permits", 3).acquire_many(3).await.is_err());
    acquired(&one, 2, 2).await.release().await.expect("released");
    t.store.erase(&format!("{}/permits!permits/limit=2+4+1+@2", t.namespace)).await;
}

/// The note that made all clients agree is deleted. Then each client's own number counts.
pub(crate) async fn a_larger_number_of_permits_grants_no_extra_one(t: &Case) {
    let [one, two] = t.clients().await;
    one.semaphore("permits", 3).set_permits(5).await.expect("set");
    one.semaphore("permits", 5).set_permits(3).await.expect("set");
    let (more, less) = (acquired(&one, 1, 5).await, acquired(&two, 1, 3).await);
    t.store.erase(&note(t, "limit=3+5+@2")).await;
    let third = acquired(&two, 1, 5).await;
    // One of the holders relies on a limit of three.
    let fourth = two.semaphore("permits", 5).try_acquire().await.expect("a reply");
    let out = [&more, &less, &third]
        .into_iter()
        .chain(&fourth)
        .filter(|permit| permit.is_valid())
        .count();
    assert!(out <= 3, "{out} permits are out, and one was granted under a limit of 3");
    let waiter = waiter(t, &one, 2, 5).await;
    waiter.waits_throughout(Duration::from_millis(200), "the limit is three").await;
    release_both(less, waiter).await;
    release([more, third]).await;
}

/// `set_permits` is repeated until it is confirmed. A repeated request that arrives after a later
/// change must not undo that change.
pub(crate) async fn late_permit_note_is_ignored(t: &Case) {
    let [one, two] = t.clients().await;
    one.semaphore("permits", 4).set_permits(2).await.expect("set");
    one.semaphore("permits", 2).set_permits(3).await.expect("set");
    let held = acquired(&one, 1, 3).await;
    // In a separate namespace, since the library refuses guarded writes to its own.
    let operator = t.connect(t.builder().namespace(format!("/operator{}", t.namespace))).await;
    let hand = operator.mutex("hand").lock().await.expect("granted");
    t.store.put_beside(&hand, &note(t, "limit=2+4+@1")).await;
    let held = [held, acquired(&two, 1, 2).await, acquired(&one, 1, 4).await];
    assert!(two.semaphore("permits", 3).try_acquire().await.expect("a reply").is_none());
    // The next change removes both.
    two.semaphore("permits", 3).set_permits(4).await.expect("set");
    for late in ["limit=2+4+@1", "limit=3+2+4+@2"] {
        assert!(t.store.data(&note(t, late)).await.is_none(), "{late} still exists");
    }
    release(held).await;
    hand.unlock().await.expect("released");
    // Notes of earlier builds have no generation. They count if there is no other note.
    let hand = operator.mutex("hand").lock().await.expect("granted");
    t.store.put_beside(&hand, &note(t, "limit=1+9")).await;
    acquired(&one, 4, 2).await.release().await.expect("released");
    eventually(SOON, "no keys are left", async || {
        t.keys().await.iter().all(|key| key.contains("limit="))
    })
    .await;
    t.store.erase(&note(t, "limit=4+3+2+@3")).await;
    let error = one.semaphore("permits", 2).acquire_many(2).await.expect_err("there is one");
    assert!(matches!(error, Error::InvalidArgument { argument: "permits", .. }), "{error:?}");
    acquired(&one, 1, 9).await.release().await.expect("released");
    hand.unlock().await.expect("released");
    eventually(SOON, "no keys are left", async || {
        t.keys().await.iter().all(|key| key.contains("limit="))
    })
    .await;
    t.store.erase(&note(t, "limit=1+9")).await;
}

/// Returns the key of a note on the number of permits.
fn note(t: &Case, name: &str) -> String {
    format!("{}/permits!permits/{name}", t.namespace)
}

pub(crate) async fn tries_without_permits_leave_nothing(t: &Case) {
    let [one, two] = t.clients().await;
    let held = acquired(&one, 2, 2).await;
    let semaphore = two.semaphore("permits", 2);
    assert!(semaphore.try_acquire().await.expect("a reply").is_none());
    assert!(
        semaphore.acquire_timeout(Duration::from_millis(100)).await.expect("a reply").is_none()
    );
    assert!(semaphore.acquire_timeout(Duration::ZERO).await.expect("a reply").is_none());
    eventually(SOON, "only the holder's key is there", async || t.keys().await == [held.key()])
        .await;
    held.release().await.expect("released");
}

/// As many tries succeed as permits are free, without waiters.
pub(crate) async fn concurrent_tries_get_all_free_permits(t: &Case) {
    let clients = t.clients::<2>().await;
    for _ in 0..5 {
        let mut tries = JoinSet::new();
        for contender in 0..4 {
            let semaphore = clients[contender % 2].semaphore("permits", 4);
            tries.spawn(async move { semaphore.try_acquire().await });
        }
        let permits = within(SOON, "all tries return", tries.join_all()).await;
        let permits: Vec<_> =
            permits.into_iter().filter_map(|permit| permit.expect("a reply")).collect();
        assert_eq!(permits.len(), 4, "there were four");
        release(permits).await;
    }
}

/// By the servers' counters.
pub(crate) async fn released_permit_wakes_one_waiter(t: &Case) {
    let [holder, client] = t.clients().await;
    let mut held = Vec::new();
    for _ in 0..10 {
        held.push(acquired(&holder, 1, 10).await);
    }
    let first = waiter(t, &client, 1, 10).await;
    let mut waiters = JoinSet::new();
    for _ in 0..199 {
        let semaphore = client.semaphore("permits", 10);
        waiters.spawn(async move { semaphore.acquire().await });
    }
    // The first waiter has an entry at the permits, and holds the gate.
    t.queue_of(10 + 200 + 1).await;
    let sessions = sessions_of(t, &[held[0].key(), &first.key]).await;
    settled(t, &sessions).await;
    let mut first = Some(first);
    for round in 0..5 {
        let before = t.cost(&sessions).await;
        held.remove(round).release().await.expect("released");
        held.push(match first.take() {
            Some(first) => first.granted().await,
            None => within(SOON, "one waiter is granted", waiters.join_next())
                .await
                .expect("one")
                .expect("no panic")
                .expect("granted"),
        });
        settled(t, &sessions).await;
        let spent = t.cost(&sessions).await - before;
        // One event. The holder may get the event of its own key, and the next waiter at the
        // permits one from before its read. The other two hundred waiters get none.
        assert!(spent.events <= 4, "round {round}: {spent:?}: more than one waiter was notified");
        assert_eq!(waiters.len(), 199 - round, "one waiter was granted");
    }
    waiters.shutdown().await;
    release(held).await;
}

pub(crate) async fn a_dead_holders_permits_come_back(t: &Case<dyn Sessions>) {
    let [dying, other] = [t.mortal_client().await, t.client().await];
    let (lost, kept) = (acquired(&dying, 2, 3).await, acquired(&other, 1, 3).await);
    let waiters = [waiter(t, &other, 1, 3).await, waiter(t, &other, 1, 3).await];
    t.store.end_session_of(lost.key()).await;
    within(SOON, "the holder is notified", lost.lost()).await;
    assert!(!lost.is_valid());
    release(waiters).await;
    kept.release().await.expect("released");
}

pub(crate) async fn a_dead_waiter_is_passed_over(t: &Case<dyn Sessions>) {
    let [dying, other] = [t.mortal_client().await, t.client().await];
    let held = acquired(&other, 1, 1).await;
    let dead = waiter(t, &dying, 1, 1).await;
    let waiter = waiter(t, &other, 1, 1).await;
    t.store.end_session_of(&dead.key).await;
    release_both(held, waiter).await;
    let key = dead.key.clone();
    match dead.result(SOON).await {
        Err(Error::SessionLost { .. } | Error::Evicted { .. }) => {}
        Err(error) => panic!("{error:?}"),
        // Its session ended before the client received the reply to its join, so it joined again
        // with a new session.
        Ok(permit) => {
            assert_ne!(permit.key(), key, "the session has ended");
            permit.release().await.expect("released");
        }
    }
}

/// The first waiter is listed by its key at the gate until it has joined the permits. An operator
/// may evict it by that key at any time.
pub(crate) async fn a_waiter_evicted_at_the_gate_acquires_no_permit(t: &Case) {
    let [one, two] = t.clients().await;
    let held = acquired(&one, 1, 1).await;
    // The holder's key at the gate is deleted in the background.
    eventually(SOON, "the holder has left the gate", async || t.keys().await == [held.key()]).await;
    let semaphore = two.semaphore("permits", 1);
    let waiting = tokio::spawn(async move { semaphore.acquire().await });
    t.queue_of(3).await;
    let keys = t.keys().await;
    let gate = keys.iter().find(|key| key.contains("gate")).expect("the waiter's key at the gate");
    t.store.delete_key(gate).await;
    let refused = within(SOON, "the waiter is refused", waiting).await.expect("no panic");
    let error = refused.expect_err("it was evicted");
    assert!(matches!(&error, Error::Evicted { name, .. } if name == "permits"), "{error:?}");
    eventually(SOON, "only the holder's key is there", async || t.keys().await == [held.key()])
        .await;
    let queue = one.semaphore("permits", 1).queue().await.expect("a reply");
    assert!(matches!(&*queue, [entry] if entry.key() == held.key()), "{queue:?}");
    release([held]).await;
}

/// A request for more permits than the client names first reads the number from the store.
pub(crate) async fn acquire_waits_while_the_store_does_not_reply(t: &Case) {
    let link = t.link().await;
    let builder = t.builder_for(&link.url()).request_timeout(Duration::from_secs(1));
    let client = t.connect(builder).await;
    client.semaphore("permits", 2).set_permits(4).await.expect("set");
    link.set_reachable(false);
    let semaphore = client.semaphore("permits", 2);
    let timed = semaphore.acquire_many_timeout(4, Duration::from_millis(100));
    let taken = within(Duration::from_millis(1800), "the time is over", timed).await;
    assert!(taken.expect("no error").is_none());
    let waiting = tokio::spawn(async move { semaphore.acquire_many(4).await });
    throughout(Duration::from_millis(2500), "it waits", async || !waiting.is_finished()).await;
    link.set_reachable(true);
    let permit = within(SOON * 2, "it is granted", waiting).await.expect("no panic");
    permit.expect("granted").release().await.expect("released");
    t.store.erase(&note(t, "limit=4+2+@1")).await;
}

pub(crate) async fn dropped_acquisitions_leave_nothing(t: &Case) {
    let [one, two] = t.clients().await;
    let held = acquired(&one, 1, 2).await;
    let mut droppers = JoinSet::new();
    for dropper in 0..60 {
        let semaphore = [&one, &two][dropper % 2].semaphore("permits", 2);
        droppers.spawn(async move {
            let limit = Duration::from_micros(fastrand::u64(..8000));
            drop(tokio::time::timeout(limit, semaphore.acquire_many(1 + dropper as u32 % 2)).await);
        });
    }
    within(SOON, "all are dropped", droppers.join_all()).await;
    eventually(SOON, "only the holder's key is there", async || t.keys().await == [held.key()])
        .await;
    let other = acquired(&two, 1, 2).await;
    assert!(held.is_valid() && other.fencing_token() > held.fencing_token());
    release([held, other]).await;
}

pub(crate) async fn bad_numbers_of_permits_are_refused(t: &Case) {
    let client = t.client().await;
    let semaphore = client.semaphore("permits", 3);
    for error in [
        client.semaphore("permits", 0).acquire().await.expect_err("no permits"),
        client.semaphore("permits", 1_000_001).acquire().await.expect_err("too many"),
        semaphore.acquire_many(0).await.expect_err("none"),
        semaphore.acquire_many(4).await.expect_err("more than there are"),
        semaphore.try_acquire_many(4).await.expect_err("more than there are"),
        semaphore.set_permits(0).await.expect_err("none"),
    ] {
        assert!(matches!(error, Error::InvalidArgument { argument: "permits", .. }), "{error:?}");
        assert!(!error.is_retryable());
    }
    assert!(matches!(
        client.semaphore("", 1).acquire().await,
        Err(Error::InvalidArgument { argument: "name", .. })
    ));
    assert!(matches!(
        client.rw_lock("").read().await,
        Err(Error::InvalidArgument { argument: "name", .. })
    ));
    assert!(t.keys().await.is_empty(), "nothing was sent");
    let most = client.semaphore("permits", 1_000_000);
    let permits = most.acquire_many(1_000_000).await.expect("as many as there may be");
    permits.release().await.expect("released");
}
