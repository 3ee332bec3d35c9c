//! Blocking calls over `memory://`, without a runtime except in the tests that are about one.

use std::{
    sync::{
        atomic::{AtomicBool, AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use distlock::{
    Client, Error, LostReason, Write,
    blocking::{self, Held, Wait},
    memory::Space,
};

/// Long enough for a call to be waiting.
const A_WHILE: Duration = Duration::from_millis(100);
/// A call that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(10);

fn connect(space: &str) -> Client {
    Client::connect(&format!("memory://blocking-{space}")).wait().expect("memory is available")
}

fn space(space: &str) -> Space {
    Space::named(&format!("blocking-{space}"))
}

/// Panics, instead of hanging, if `call` does not return. A blocked call stays behind.
fn in_time<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(call()));
    receiver.recv_timeout(LIMIT).expect("the call hangs, or has panicked")
}

#[test]
fn blocking_types_are_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    fn shown<T: Copy + Send + Sync + std::fmt::Debug>(_: T) {}
    let client = connect("shared");
    let mutex = client.mutex("a");
    shared(&blocking::iter(mutex.watch_queue().unwrap()));
    shared(&blocking::iter(client.election("a").observe().unwrap()));
    let guard = mutex.lock().wait().unwrap();
    guard.run_blocking(|held: Held<'_>| shown(held)).unwrap();
}

#[test]
fn threads_never_overlap() {
    in_time(|| {
        let inside = AtomicBool::new(false);
        let counter = AtomicU32::new(0);
        let clients = [connect("overlap"), connect("overlap")];
        thread::scope(|scope| {
            for number in 0..8 {
                let (inside, counter, client) = (&inside, &counter, &clients[number % 2]);
                scope.spawn(move || {
                    let mut last = None;
                    for _ in 0..10 {
                        let guard = client.mutex("a").lock().wait().unwrap();
                        assert!(!inside.swap(true, Ordering::SeqCst), "two are inside");
                        assert!(last < Some(guard.fencing_token()));
                        last = Some(guard.fencing_token());
                        counter.fetch_add(1, Ordering::SeqCst);
                        thread::yield_now();
                        inside.store(false, Ordering::SeqCst);
                        guard.unlock().wait().unwrap();
                    }
                });
            }
        });
        assert_eq!(counter.into_inner(), 80);
        assert!(space("overlap").keys().is_empty());
    });
}

#[test]
fn a_busy_lock_is_waited_for_up_to_the_timeout() {
    let client = connect("timeout");
    let mutex = client.mutex("a");
    let guard = mutex.try_lock().wait().unwrap().expect("the lock is free");
    assert!(mutex.try_lock().wait().unwrap().is_none());
    let start = Instant::now();
    assert!(mutex.lock_timeout(A_WHILE).wait().unwrap().is_none());
    assert!(start.elapsed() >= A_WHILE && start.elapsed() < LIMIT, "{:?}", start.elapsed());
    guard.unlock().wait().unwrap();
    let guard = mutex.lock_timeout(LIMIT).wait().unwrap().expect("the lock is free again");
    assert_eq!((guard.name(), guard.key()), ("a", &*space("timeout").keys()[0]));
    assert!(guard.is_valid() && !guard.remaining().is_zero());
}

#[test]
fn a_guard_may_be_dropped_on_another_thread() {
    in_time(|| {
        let client = connect("dropped");
        let guard = client.mutex("a").lock().wait().unwrap();
        let waiter = thread::spawn({
            let mutex = client.mutex("a");
            move || mutex.lock().wait().map(drop)
        });
        thread::spawn(move || drop(guard)).join().unwrap();
        waiter.join().unwrap().unwrap();
    });
}

#[test]
fn a_thread_that_waits_for_the_loss_is_notified() {
    in_time(|| {
        let client = connect("lost");
        let guard = client.mutex("a").lock().wait().unwrap();
        assert_eq!(guard.lost().wait_timeout(A_WHILE), None);
        thread::scope(|scope| {
            let watchers = [
                scope.spawn(|| guard.lost().wait()),
                scope.spawn(|| guard.lost().wait_timeout(LIMIT).expect("in time")),
            ];
            thread::sleep(A_WHILE);
            assert!(space("lost").expire_session(guard.key()));
            for watchers in watchers {
                assert_eq!(watchers.join().unwrap(), LostReason::SessionExpired);
            }
        });
        assert!(!guard.is_valid());
        assert_eq!(guard.lost().wait_timeout(Duration::ZERO), Some(LostReason::SessionExpired));
        assert!(matches!(
            guard.unlock().wait(),
            Err(Error::Lost { reason: LostReason::SessionExpired, .. })
        ));
        // The next lock has a new session.
        client.mutex("a").lock().wait().unwrap().unlock().wait().unwrap();
    });
}

#[test]
fn run_returns_whether_the_lock_was_held_to_the_end() {
    let client = connect("run");
    let guard = client.mutex("a").lock().wait().unwrap();
    let done = guard.run_blocking(|held| {
        assert!(held.is_valid() && !held.remaining().is_zero());
        assert!(held.remaining() <= client.session_ttl());
        guard.name().len()
    });
    assert_eq!(done.unwrap(), 1);
    let mut ended = false;
    let outcome = guard.run_blocking(|held| {
        space("run").delete(guard.key());
        guard.lost().wait();
        assert!(!held.is_valid() && held.remaining().is_zero());
        ended = true;
    });
    let error = outcome.unwrap_err();
    let evicted = matches!(error, Error::Lost { reason: LostReason::Evicted, .. });
    assert!(evicted, "{error:?}");
    assert!(ended, "a closure runs to its end");
    guard.run_blocking(|_| unreachable!("the lock is already lost")).unwrap_err();
}

#[test]
fn every_guard_type_runs_closures() {
    let client = connect("run-all");
    let (rw_lock, semaphore) = (client.rw_lock("a"), client.semaphore("a", 1));
    let valid = |held: Held<'_>| held.is_valid();
    assert!(rw_lock.read().wait().unwrap().run_blocking(valid).unwrap());
    assert!(rw_lock.write().wait().unwrap().run_blocking(valid).unwrap());
    assert!(semaphore.acquire().wait().unwrap().run_blocking(valid).unwrap());
    let leadership = client.election("a").campaign("one").wait().unwrap();
    assert!(leadership.run_blocking(valid).unwrap());
}

#[test]
fn many_read_and_one_writes() {
    in_time(|| {
        let lock = connect("rw").rw_lock("a");
        let readers =
            [lock.read().wait().unwrap(), lock.try_read().wait().unwrap().expect("readers share")];
        assert!(lock.try_write().wait().unwrap().is_none());
        assert!(lock.write_timeout(A_WHILE).wait().unwrap().is_none());
        readers.into_iter().for_each(|reader| reader.unlock().wait().unwrap());
        let writer = lock.write_timeout(LIMIT).wait().unwrap().expect("the lock is free");
        let token = writer.fencing_token();
        assert!(lock.try_read().wait().unwrap().is_none());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| lock.read().wait());
            thread::sleep(A_WHILE);
            assert!(!waiting.is_finished());
            let reader = writer.downgrade().wait().unwrap();
            assert_eq!(reader.fencing_token(), token);
            waiting.join().unwrap().unwrap().unlock().wait().unwrap();
            assert!(lock.try_write().wait().unwrap().is_none());
            reader.unlock().wait().unwrap();
        });
        lock.write().wait().unwrap().unlock().wait().unwrap();
        assert!(lock.read_timeout(Duration::ZERO).wait().unwrap().is_some());
        assert!(space("rw").get("nothing").is_none());
    });
}

#[test]
fn permits_are_counted() {
    in_time(|| {
        let semaphore = connect("permits").semaphore("a", 3);
        let (one, two) = (
            semaphore.acquire().wait().unwrap(),
            semaphore.try_acquire_many(2).wait().unwrap().expect("two permits are free"),
        );
        assert_eq!((one.permits(), two.permits()), (1, 2));
        assert!(semaphore.try_acquire().wait().unwrap().is_none());
        assert!(semaphore.acquire_timeout(A_WHILE).wait().unwrap().is_none());
        assert!(semaphore.acquire_many_timeout(2, A_WHILE).wait().unwrap().is_none());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| semaphore.acquire_many(2).wait());
            thread::sleep(A_WHILE);
            assert!(!waiting.is_finished());
            two.release().wait().unwrap();
            assert_eq!(waiting.join().unwrap().unwrap().permits(), 2);
        });
        semaphore.set_permits(1).wait().unwrap();
        one.release().wait().unwrap();
        assert!(matches!(
            semaphore.acquire_many(2).wait(),
            Err(Error::InvalidArgument { argument: "permits", .. })
        ));
        assert!(semaphore.acquire_timeout(LIMIT).wait().unwrap().is_some());
    });
}

#[test]
fn one_leads_and_others_watch() {
    in_time(|| {
        let (client, other) = (connect("election"), connect("election"));
        let election = client.election("a");
        assert_eq!(election.leader().wait().unwrap(), None);
        let mut leaders = election.observe().unwrap();
        assert_eq!(leaders.next().wait_timeout(A_WHILE), None);
        let leadership = election.campaign("one").wait().unwrap();
        assert!(other.election("a").try_campaign("two").wait().unwrap().is_none());
        assert!(other.election("a").campaign_timeout("two", A_WHILE).wait().unwrap().is_none());
        assert_eq!(leaders.next().wait().unwrap().value(), b"one");
        leadership.proclaim("still one").wait().unwrap();
        assert_eq!(leaders.next().wait().unwrap().value_str(), Some("still one"));
        thread::scope(|scope| {
            let next = scope.spawn(|| other.election("a").campaign("two").wait());
            let token = leadership.fencing_token();
            leadership.resign().wait().unwrap();
            let next = next.join().unwrap().unwrap();
            assert!(next.fencing_token() > token);
            assert_eq!(leaders.next().wait().unwrap().value(), b"two");
        });
        thread::scope(|scope| {
            let end = scope.spawn(|| leaders.next().wait());
            thread::sleep(A_WHILE);
            client.close().wait().unwrap();
            assert_eq!(end.join().unwrap(), None);
        });
    });
}

#[test]
fn queues_are_watched_and_releases_requested() {
    in_time(|| {
        let client = connect("view");
        let mutex = client.mutex("a");
        assert!(
            mutex.holder().wait().unwrap().is_none()
                && !mutex.request_release("free").wait().unwrap()
        );
        let guard = mutex.lock().wait().unwrap();
        assert_eq!(guard.run(guard.release_requested()).wait_timeout(A_WHILE), None);
        let mut changes = mutex.watch_queue().unwrap();
        assert_eq!(changes.next().wait().unwrap().len(), 1);
        assert!(changes.next().wait_timeout(A_WHILE).is_none());
        thread::scope(|scope| {
            let key = guard.key().to_owned();
            let requested = scope.spawn(move || {
                let request = guard.run(guard.release_requested()).wait();
                (request, guard)
            });
            let waiting = scope.spawn(|| mutex.lock().wait());
            assert_eq!(changes.next().wait().unwrap().len(), 2);
            assert_eq!(mutex.holder().wait().unwrap().expect("the lock is held").key(), key);
            assert!(mutex.request_release("now").wait().unwrap());
            let (request, guard) = requested.join().unwrap();
            assert_eq!(request.unwrap().reason(), "now");
            assert_eq!(mutex.queue().wait().unwrap().len(), 2);
            guard.unlock().wait().unwrap();
            let guard = waiting.join().unwrap().unwrap();
            let requested = scope.spawn(move || guard.run(guard.release_requested()).wait());
            thread::sleep(A_WHILE);
            space("view").delete(mutex.holder().wait().unwrap().expect("the lock is held").key());
            assert_eq!(requested.join().unwrap().unwrap_err().reason, LostReason::Evicted);
        });
    });
}

#[test]
fn several_locks_are_taken_together() {
    in_time(|| {
        let client = connect("many");
        let all = client.lock_all(["b", "a"]).wait().unwrap();
        assert_eq!(all.guards().iter().map(|guard| guard.name()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(
            all.is_valid()
                && !all.remaining().is_zero()
                && all.get("b").is_some()
                && all.get("c").is_none()
        );
        assert!(client.try_lock_all(["c", "b"]).wait().unwrap().is_none());
        assert!(client.lock_all_timeout(["c", "b"], A_WHILE).wait().unwrap().is_none());
        let seen = all.run_blocking(|held| (held.is_valid(), all.guards().len()));
        assert_eq!(seen.unwrap(), (true, 2));
        assert_eq!(all.lost().wait_timeout(A_WHILE), None);
        let outcome = all.run_blocking(|held| {
            space("many").delete(all.guards()[1].key());
            assert_eq!(all.lost().wait(), ("b", LostReason::Evicted));
            assert!(!held.is_valid() && held.remaining().is_zero());
        });
        let error = outcome.unwrap_err();
        let evicted = matches!(error, Error::Lost { reason: LostReason::Evicted, .. });
        assert!(evicted, "{error:?}");
        all.run_blocking(|_| unreachable!("one lock is already lost")).unwrap_err();
        assert!(!all.is_valid());
        assert!(matches!(all.unlock().wait(), Err(Error::Lost { .. })));
        client.lock_all(["a", "b"]).wait().unwrap().unlock().wait().unwrap();
    });
}

#[test]
fn writes_are_guarded() {
    let client = connect("write");
    let guard = client.mutex("a").lock().wait().unwrap();
    guard.put("/data/one", "1").wait().unwrap();
    guard.write(&[Write::put("/data/two", "2"), Write::delete("/data/one")]).wait().unwrap();
    assert_eq!(
        (space("write").get("/data/one"), space("write").get("/data/two")),
        (None, Some(b"2".to_vec()))
    );
    guard.delete("/data/two").wait().unwrap();
    space("write").expire_session(guard.key());
    assert!(matches!(guard.put("/data/one", "1").wait(), Err(Error::Lost { .. })));
    assert_eq!(space("write").get("/data/one"), None);
}

#[test]
fn close_ends_all_waiting() {
    in_time(|| {
        let client = connect("close");
        let guard = client.mutex("a").lock().wait().unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| client.mutex("a").lock().wait());
            let watching = scope.spawn(|| guard.lost().wait());
            thread::sleep(A_WHILE);
            client.close().wait().unwrap();
            assert!(matches!(waiting.join().unwrap(), Err(Error::Closed)));
            assert_eq!(watching.join().unwrap(), LostReason::ClientClosed);
        });
        assert!(matches!(client.mutex("a").try_lock().wait(), Err(Error::Closed)));
        client.close().wait().unwrap();
        assert_eq!(space("close").sessions(), 0);
    });
}

#[test]
fn bad_settings_are_refused() {
    assert!(matches!(Client::connect("nonsense").wait(), Err(Error::InvalidUrl { .. })));
    let error =
        Client::builder("memory://blocking-bad").namespace("locks").connect().wait().unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { argument: "namespace", .. }), "{error:?}");
    assert!(matches!(
        connect("bad").mutex("").lock().wait(),
        Err(Error::InvalidArgument { argument: "name", .. })
    ));
}

#[test]
fn streams_are_iterators() {
    in_time(|| {
        let client = connect("iter");
        let guard = client.mutex("a").lock().wait().unwrap();
        let mut changes = client.mutex("a").watch_queue().unwrap();
        let lengths: Vec<_> =
            blocking::iter(&mut changes).map(|queue| queue.len()).take(1).collect();
        assert_eq!(lengths, [1]);
        guard.unlock().wait().unwrap();
        assert_eq!(blocking::iter(&mut changes).next(), Some(vec![]));
        let leadership = client.election("a").campaign("one").wait().unwrap();
        let leaders = client.election("a").observe().unwrap();
        thread::scope(|scope| {
            let seen = scope.spawn(|| blocking::iter(leaders).collect::<Vec<_>>());
            thread::sleep(A_WHILE);
            leadership.proclaim("still one").wait().unwrap();
            thread::sleep(A_WHILE);
            client.close().wait().unwrap();
            let seen = seen.join().unwrap();
            let values: Vec<_> = seen.iter().filter_map(|leader| leader.value_str()).collect();
            assert_eq!(values, ["one", "still one"]);
        });
        assert_eq!(blocking::iter(&mut changes).count(), 0);
    });
}

#[test]
fn any_future_is_waited_for_up_to_its_timeout() {
    in_time(|| {
        let start = Instant::now();
        assert_eq!(std::future::pending::<()>().wait_timeout(A_WHILE), None);
        assert!(start.elapsed() >= A_WHILE && start.elapsed() < LIMIT, "{:?}", start.elapsed());
        assert_eq!(std::future::ready(7).wait_timeout(Duration::ZERO), Some(7));
        assert_eq!(std::future::ready(7).wait_timeout(Duration::MAX), Some(7));
        // A future that times out is dropped, so it leaves the queue.
        let mutex = connect("given-up").mutex("a");
        let guard = mutex.lock().wait().unwrap();
        assert!(mutex.lock().wait_timeout(A_WHILE).is_none());
        let mut changes = mutex.watch_queue().unwrap();
        assert!(blocking::iter(&mut changes).any(|queue| queue.len() == 1));
        guard.unlock().wait().unwrap();
    });
}

#[test]
fn tasks_and_threads_share_a_client() {
    in_time(|| {
        let client = connect("both");
        let guard = client.mutex("a").lock().wait().unwrap();
        let token = guard.fencing_token();
        let next = blocking::wait(async {
            guard.unlock().await?;
            client.mutex("a").lock().await
        });
        let next = next.unwrap();
        assert!(next.fencing_token() > token);
        client.close().wait().unwrap();
        assert_eq!(next.lost().wait(), LostReason::ClientClosed);
    });
}

mod within_a_runtime {
    use std::{
        future::Future,
        pin::pin,
        sync::Arc,
        task::{Context, Poll, Wake, Waker},
    };

    use tokio::runtime::Builder;

    use super::*;

    /// Does more of everything than a task may do before it returns to its scheduler.
    fn work(client: &Client) {
        let mutex = client.mutex("a");
        for _ in 0..300 {
            let guard = mutex.lock().wait().unwrap();
            assert!(mutex.try_lock().wait().unwrap().is_none());
            guard.unlock().wait().unwrap();
        }
        let guard = mutex.lock().wait().unwrap();
        assert_eq!(guard.lost().wait_timeout(Duration::from_millis(10)), None);
        assert!(mutex.lock_timeout(Duration::from_millis(10)).wait().unwrap().is_none());
        space("runtime").expire_session(guard.key());
        assert_eq!(guard.lost().wait(), LostReason::SessionExpired);
    }

    #[test]
    fn calls_block_only_the_calling_thread_of_a_runtime() {
        for workers in [None, Some(1)] {
            in_time(move || {
                let mut builder = workers.map_or_else(Builder::new_current_thread, |workers| {
                    let mut builder = Builder::new_multi_thread();
                    builder.worker_threads(workers);
                    builder
                });
                let runtime = builder.build().unwrap();
                runtime.block_on(async {
                    let client = connect("runtime");
                    work(&client);
                    let task = tokio::spawn(async move {
                        work(&client);
                        client.close().wait().unwrap();
                    });
                    task.await.unwrap();
                });
            });
        }
    }

    /// The runtime's timers stop while its thread is blocked, but the timeout has its own timer.
    #[test]
    fn waits_on_the_blocked_runtime_itself_time_out() {
        in_time(|| {
            let runtime = Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(async {
                let timer = tokio::time::sleep(Duration::from_millis(1));
                assert_eq!(timer.wait_timeout(A_WHILE), None);
                tokio::time::sleep(Duration::from_millis(1)).await;
            });
        });
    }

    struct Unpark(thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    /// A minimal executor is woken while a call blocks its thread. That wake-up must not be lost.
    #[test]
    fn calls_keep_wake_ups_of_the_outer_executor() {
        in_time(|| {
            let client = connect("nested");
            let waker = Waker::from(Arc::new(Unpark(thread::current())));
            let mut context = Context::from_waker(&waker);
            let mut called = false;
            let mut future = pin!(std::future::poll_fn(|context| {
                if called {
                    return Poll::Ready(());
                }
                let guard = client.mutex("a").lock().wait().unwrap();
                let waker = context.waker().clone();
                let other = thread::spawn(move || {
                    thread::sleep(A_WHILE);
                    waker.wake();
                });
                assert_eq!(guard.lost().wait_timeout(A_WHILE * 3), None);
                other.join().unwrap();
                called = true;
                Poll::Pending
            }));
            while future.as_mut().poll(&mut context).is_pending() {
                thread::park();
            }
        });
    }
}
