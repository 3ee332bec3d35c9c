//! Building blocks of services: jobs that run once a period, reentrant locks, leaders that work
//! while they lead, and clients that shut down.

use std::{
    cell::Cell,
    future::{pending, ready},
    time::Duration,
};

use distlock::{Client, Error, LockGuard, LockKind, LostReason, Result};
use futures_util::future::{join, join_all};
use tokio::{sync::oneshot, task::JoinSet, time::timeout};

use crate::common::{
    Case, SOON, Waiter, eventually, promises, release, release_both, throughout, within,
};

const HOUR: Duration = Duration::from_secs(3600);

pub(crate) async fn a_job_runs_once_a_period(t: &Case) {
    let clients = t.clients::<3>().await;
    let mut jobs = JoinSet::new();
    for client in clients.iter().cycle().take(12) {
        let job = client.mutex("job");
        jobs.spawn(async move { job.run_once_per(HOUR, async |_| ()).await });
    }
    let ran = jobs.join_all().await.into_iter().collect::<Result<Vec<_>>>().expect("no error");
    assert_eq!(ran.iter().flatten().count(), 1, "of twelve concurrent jobs");
    // The period ends after nine tenths of its length.
    let (job, period) = (clients[0].mutex("short"), Duration::from_millis(1000));
    assert!(job.run_once_per(period, async |_| ()).await.expect("no error").is_some());
    assert!(job.run_once_per(period, async |_| ()).await.expect("no error").is_none());
    tokio::time::sleep(period).await;
    assert!(job.run_once_per(period, async |_| ()).await.expect("no error").is_some());
    let error = job.run_once_per(Duration::from_millis(99), async |_| ()).await.expect_err("short");
    assert!(matches!(error, Error::InvalidArgument { argument: "period", .. }), "{error:?}");
    t.erase(["job", "short"].map(|name| note(t, name))).await;
}

/// Returns the key of the note on when a lock's work began.
fn note(t: &Case, name: &str) -> String {
    format!("{}/!began/{name}", t.namespace)
}

/// Only an explicit clear lets work begin twice in a period.
pub(crate) async fn a_period_is_cleared_by_name_alone(t: &Case) {
    let [one, two] = t.clients().await;
    let (job, other) = (one.mutex("job"), two.mutex("job"));
    let guard = job.lock().await.expect("granted");
    assert_eq!(guard.clear_period().await.expect("a reply"), None, "nothing has begun");
    guard.unlock().await.expect("released");
    let failed = job.run_once_per(HOUR, async |_| Err::<(), _>("disk full")).await;
    assert_eq!(failed.expect("no error"), Some(Err("disk full")));
    let again = async || other.run_once_per(HOUR, async |_| ()).await.expect("no error");
    assert_eq!(again().await, None, "a failed job counts");
    let guard = job.lock().await.expect("granted");
    let began = guard.clear_period().await.expect("a reply").expect("a start time");
    assert!(began.elapsed().is_ok_and(|age| age < HOUR), "{began:?}");
    guard.unlock().await.expect("released");
    assert_eq!(again().await, Some(()));
    assert_eq!(again().await, None);
    // Without the lock nothing is cleared.
    let guard = job.lock().await.expect("granted");
    t.store.delete_key(guard.key()).await;
    let error = guard.clear_period().await.expect_err("the lock is lost");
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    assert_eq!(again().await, None);
    t.store.erase(&note(t, "job")).await;
}

/// Notes of names that are used only once are deleted eventually.
pub(crate) async fn notes_of_past_periods_are_deleted(t: &Case) {
    let period = Duration::from_millis(200);
    let first = t.client().await;
    for number in 1..5 {
        let job = first.mutex(format!("order/{number}"));
        assert!(job.run_once_per(period, async |_| ()).await.expect("no error").is_some());
    }
    assert!(first.mutex("kept").run_once_per(HOUR, async |_| ()).await.expect("ok").is_some());
    // The note of a held lock is kept. It is the first one that the cleanup reads.
    let held = first.mutex("order/0").lock().await.expect("granted");
    assert!(held.claim_period(period).await.expect("no error"));
    tokio::time::sleep(period * 2).await;
    let old: Vec<_> = (0..5).map(|number| note(t, &format!("order%2F{number}"))).collect();
    let second = t.client().await;
    assert!(second.mutex("new").run_once_per(HOUR, async |_| ()).await.expect("ok").is_some());
    eventually(SOON, "the notes are deleted", async || {
        let mut left = 0;
        for key in &old[1..] {
            left += usize::from(t.store.data(key).await.is_some());
        }
        left == 0
    })
    .await;
    assert!(t.store.data(&old[0]).await.is_some(), "the lock is held");
    assert!(t.store.data(&note(t, "kept")).await.is_some(), "the period has not ended");
    held.unlock().await.expect("released");
    t.erase([&old[0], &note(t, "kept"), &note(t, "new")]).await;
}

pub(crate) async fn get_returns_the_value_that_was_put(t: &Case) {
    let [one, two] = t.clients().await;
    let guard = one.mutex("m").lock().await.expect("granted");
    let key = t.data_key("value");
    assert_eq!(guard.get(&key).await.expect("a reply"), None);
    guard.put(key.clone(), "first").await.expect("written");
    let other = two.mutex("n").lock().await.expect("granted");
    assert_eq!(other.get(&key).await.expect("a reply").as_deref(), Some(&b"first"[..]));
    for bad in ["", "value", "/", &format!("{}/m", t.namespace)] {
        let error = guard.get(bad).await.expect_err("no such key");
        assert!(matches!(error, Error::InvalidArgument { argument: "key", .. }), "{error:?}");
    }
    guard.delete(key.clone()).await.expect("deleted");
    assert_eq!(other.get(&key).await.expect("a reply"), None);
    t.store.delete_key(other.key()).await;
    within(SOON, "the holder is notified", other.lost()).await;
    let error = other.get(&key).await.expect_err("the lock was lost");
    assert!(matches!(error, Error::Lost { reason: LostReason::Evicted, .. }), "{error:?}");
    guard.unlock().await.expect("released");
}

pub(crate) async fn a_holder_takes_its_lock_again(t: &Case) {
    let [one, two] = t.clients().await;
    let (mutex, other) = (one.mutex("m").reentrant("a"), one.clone().mutex("m").reentrant("b"));
    let outer = mutex.lock().await.expect("granted");
    let inner = mutex.try_lock().await.expect("a reply").expect("the same holder");
    assert_eq!((inner.key(), inner.fencing_token()), (outer.key(), outer.fencing_token()));
    assert_eq!(t.keys().await.len(), 1);
    // Another holder of this client, and the same holder of another client.
    for other in [&other, &two.mutex("m").reentrant("a")] {
        assert!(other.try_lock().await.expect("a reply").is_none());
    }
    let waiting = tokio::spawn(async move { other.lock().await });
    t.queue_of(2).await;
    outer.unlock().await.expect("the lock is held");
    throughout(Duration::from_millis(200), "the lock is still held", async || {
        inner.is_valid() && !waiting.is_finished()
    })
    .await;
    inner.unlock().await.expect("released");
    let next = within(SOON, "the next holder is granted", waiting)
        .await
        .expect("no panic")
        .expect("granted");
    // Two waiting calls of one holder are granted together.
    let calls = [(); 2].map(|()| {
        let mutex = mutex.clone();
        tokio::spawn(async move { mutex.lock().await })
    });
    t.queue_of(3).await;
    next.unlock().await.expect("released");
    let mut tokens = Vec::new();
    let mut guards = Vec::new();
    for call in calls {
        let guard =
            within(SOON, "both are granted", call).await.expect("no panic").expect("granted");
        tokens.push(guard.fencing_token());
        guards.push(guard);
    }
    assert_eq!(tokens[0], tokens[1]);
    // A lost lock is not shared.
    t.store.delete_key(guards[0].key()).await;
    within(SOON, "the holder is notified", guards[1].lost()).await;
    let again = within(SOON, "acquired again", mutex.lock()).await.expect("granted");
    assert!(again.fencing_token() > tokens[0]);
    for guard in guards {
        let error = guard.unlock().await.expect_err("the lock was lost");
        assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    }
    assert!(again.is_valid());
    again.unlock().await.expect("released");
}

pub(crate) async fn a_leader_works_until_it_is_cancelled(t: &Case) {
    let [one, two] = t.clients().await;
    let election = one.election("e");
    let mut leaders = two.election("e").observe().expect("a name");
    let terms = Cell::new(0);
    let (stop, stopped) = oneshot::channel::<()>();
    let cancel = async { drop(stopped.await) };
    let leading = election.run("candidate", cancel, async |leadership| {
        terms.set(terms.get() + 1);
        if terms.get() == 1 {
            let leader =
                two.election("e").leader().await.expect("a reply").expect("the candidate leads");
            assert_eq!(leader.value_str(), Some("candidate"), "the value is set from the start");
        }
        leadership.proclaim(format!("term {}", terms.get())).await.expect("the candidate leads");
        pending::<()>().await;
    });
    let watching = async {
        let mut observed = async |value: &str| loop {
            let leader = within(SOON, value, leaders.next()).await.expect("the client is open");
            if leader.value_str() == Some(value) {
                return leader;
            }
        };
        let first = observed("term 1").await;
        t.store.delete_key(first.key()).await;
        // The leader campaigns again.
        let second = observed("term 2").await;
        assert!(second.fencing_token() > first.fencing_token());
        stop.send(()).expect("the receiver exists");
    };
    let (done, ()) = tokio::join!(leading, watching);
    assert_eq!(done.expect("no error"), None);
    assert_eq!(
        two.election("e").leader().await.expect("a reply"),
        None,
        "no leader after the cancellation"
    );
    let done = election.run("candidate", pending(), async |_| 7).await.expect("no error");
    assert_eq!(done, Some(7));
    assert_eq!(election.run("candidate", ready(()), async |_| 7).await.expect("no error"), None);
}

pub(crate) async fn all_locks_of_a_namespace_are_listed(t: &Case) {
    let [one, two] = t.clients().await;
    assert!(one.locks().await.expect("a reply").is_empty());
    let (mutex, waiter) = t.contended(&one, &two, "odd/näme !").await;
    let rw_lock = two.rw_lock("shared");
    let readers = [rw_lock.read().await, rw_lock.read().await].map(|r| r.expect("granted"));
    let writer = tokio::spawn(async move { rw_lock.write().await });
    t.queue_of(5).await;
    let semaphore = one.semaphore("some", 2);
    let permit = semaphore.acquire_many(2).await.expect("granted");
    let acquire = |client: &Client| {
        let semaphore = client.semaphore("some", 2);
        tokio::spawn(async move { semaphore.acquire().await })
    };
    let next = acquire(&two);
    eventually(SOON, "one waits at the gate and for permits", async || {
        let entries = semaphore.queue().await.expect("a reply");
        entries.len() == 2 && t.keys().await.len() == 8
    })
    .await;
    let last = acquire(&one);
    t.queue_of(9).await;
    let leadership = two.election("leader").campaign("me").await.expect("elected");
    let locks = one.locks().await.expect("a reply");
    let summaries: Vec<_> = locks
        .iter()
        .map(|lock| (lock.name(), lock.kind(), lock.holders().len(), lock.waiters().len()))
        .collect();
    assert_eq!(
        summaries,
        [
            ("leader", LockKind::Election, 1, 0),
            ("odd/näme !", LockKind::Mutex, 1, 1),
            ("shared", LockKind::RwLock, 2, 1),
            ("some", LockKind::Semaphore, 1, 2),
        ]
    );
    assert_eq!(locks[1].holders()[0].key(), mutex.key());
    // Each primitive returns the same entries.
    let shown = within(SOON, "the queue is shown", async {
        let mut watch = two.semaphore("some", 2).watch_queue().expect("a name");
        watch.next().await.expect("the client is open")
    });
    let positions: Vec<_> =
        shown.await.iter().map(|entry| (entry.position(), entry.is_holder())).collect();
    assert_eq!(positions, [(0, true), (1, false), (2, false)]);
    let sharing = one.rw_lock("shared").queue().await.expect("a reply");
    assert_eq!(sharing[0].key(), readers[0].key());
    let leader = one.election("leader").holder().await.expect("a reply").expect("there is one");
    assert_eq!((leader.key(), leader.owner()), (leadership.key(), "me"));
    assert_eq!(semaphore.queue().await.expect("a reply")[0].key(), permit.key());
    release_both(mutex, waiter).await;
    release(readers).await;
    writer.await.expect("no panic").expect("granted").unlock().await.expect("released");
    permit.release().await.expect("released");
    for permit in [next, last] {
        permit.await.expect("no panic").expect("granted").release().await.expect("released");
    }
    leadership.resign().await.expect("resigned");
}

pub(crate) async fn a_client_that_shuts_down_lets_holders_finish(t: &Case) {
    let (client, other) = (t.client().await, t.client().await);
    let guard = client.mutex("m").lock().await.expect("granted");
    let left = client.mutex("left").lock().await.expect("granted");
    let permit = client.semaphore("s", 1).acquire().await.expect("granted");
    let waiter = Waiter::of(&client, "m");
    t.queue_of(4).await;
    let closing = {
        let client = client.clone();
        tokio::spawn(async move { client.shutdown(Duration::from_millis(1500)).await })
    };
    let asked = within(SOON, "the holder is asked to release", guard.release_requested()).await;
    assert_eq!(asked.owner(), client.owner());
    within(SOON, "the other holder is asked to release", permit.release_requested()).await;
    let error = waiter.result(SOON).await.expect_err("not granted");
    assert!(matches!(error, Error::Closed), "{error:?}");
    for error in [
        client.mutex("new").lock().await.map(drop),
        client.mutex("new").try_lock().await.map(drop),
        client.rw_lock("new").read().await.map(drop),
        client.semaphore("s", 1).acquire().await.map(drop),
        client.election("new").campaign("me").await.map(drop),
        client.lock_all(["new", "newer"]).await.map(drop),
    ]
    .map(|result| result.expect_err("nothing is granted"))
    {
        assert!(matches!(error, Error::Closed), "{error:?}");
    }
    assert!(guard.is_valid() && left.is_valid() && permit.is_valid() && !closing.is_finished());
    guard.unlock().await.expect("released");
    permit.release().await.expect("released");
    let next = timeout(SOON, other.mutex("m").lock()).await.expect("the lock is free");
    next.expect("granted").unlock().await.expect("released");
    within(SOON, "the shutdown ends", closing).await.expect("no panic").expect("closed");
    assert_eq!(within(SOON, "the holder is notified", left.lost()).await, LostReason::ClientClosed);
    // Without held locks, `shutdown` takes no longer than `close`.
    within(SOON, "at once", other.shutdown(HOUR)).await.expect("closed");
    assert!(client.is_closed() && other.is_closed());
}

/// A lock that is being released when its client is shut down has not been lost.
pub(crate) async fn releases_under_way_end_before_the_shutdown(t: &Case) {
    for round in 0..5 {
        let client = t.client().await;
        let mut guards = Vec::new();
        for lock in 0..3 {
            let mutex = client.mutex(format!("m{round}-{lock}"));
            guards.push(mutex.lock().await.expect("granted"));
        }
        let releases = join_all(guards.into_iter().map(LockGuard::unlock));
        let (released, closed) = join(releases, client.shutdown(HOUR)).await;
        closed.expect("closed");
        for result in released {
            result.expect("released");
        }
    }
}

pub(crate) async fn durability_matches_the_guarantees_of_the_store(t: &Case) {
    let [client] = t.clients().await;
    assert_eq!(promises(&client).await, t.store.promises());
    client.close().await.expect("closed");
    let error = client.durability().await.expect_err("the client is closed");
    assert!(matches!(error, Error::Closed), "{error:?}");
}
