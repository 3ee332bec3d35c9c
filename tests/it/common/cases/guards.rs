//! Operations on a guard, in any thread or runtime.

use std::{
    future::poll_fn,
    num::ParseIntError,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use distlock::{Client, Error, Health, LockGuard, Result};
use tokio::runtime::{Builder, Runtime};

use crate::common::{Case, SOON, eventually, locked, throughout, within, without_a_runtime};

/// The error type of a program.
type Failure = Box<dyn std::error::Error + Send + Sync>;

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

/// Runs `work` on a thread without a tokio runtime.
async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = thread::spawn(work);
    within(SOON, "the thread ends", async {
        while !thread.is_finished() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    thread.join().expect("the thread does not panic")
}

pub(crate) async fn unlock_grants_the_next_waiter(t: &Case) {
    let [one, two] = t.clients().await;
    let (first, waiter) = t.contended(&one, &two, "next").await;
    let (key, token) = (first.key().to_owned(), first.fencing_token());
    first.unlock().await.expect("released");
    assert!(!t.keys().await.contains(&key), "unlock() returned Ok, so the key is deleted");
    let second = waiter.granted().await;
    assert!(second.fencing_token() > token);
    second.unlock().await.expect("released");
}

pub(crate) async fn a_dropped_guard_releases(t: &Case) {
    let [one, two] = t.clients().await;
    drop(one.mutex("dropped").lock().await.expect("granted"));
    let guard = locked(&two, "dropped").await;
    let waiter = t.enqueue(&one, "dropped").await;
    drop(guard);
    waiter.served().await;
}

pub(crate) async fn a_guard_dropped_outside_a_runtime_releases(t: &Case) {
    let [one, two] = t.clients().await;
    let (guard, waiter) = t.contended(&one, &two, "thread").await;
    on_a_thread(move || drop(guard)).await;
    waiter.served().await;
}

pub(crate) async fn a_guard_dropped_by_a_panic_releases(t: &Case) {
    let [one, two] = t.clients().await;
    let (guard, waiter) = t.contended(&one, &two, "panic").await;
    // On a thread of its own: a second panic while unwinding would end the process.
    on_a_thread(move || {
        let work = AssertUnwindSafe(move || {
            let _guard = guard;
            // without the message that a panic prints
            std::panic::resume_unwind(Box::new("work failed"));
        });
        catch_unwind(work).expect_err("the work panics");
    })
    .await;
    waiter.served().await;
}

pub(crate) async fn a_guard_moves_between_runtimes(t: &Case) {
    let [one, two] = t.clients().await;
    let (guard, waiter) = t.contended(&one, &two, "moved").await;
    let guard: LockGuard = tokio::spawn(async move { guard }).await.expect("no panic");
    let unlocked: Result<()> = on_a_thread(move || {
        let other = Builder::new_current_thread().enable_all().build().expect("a runtime");
        assert!(guard.is_valid());
        other.block_on(guard.unlock())
    })
    .await;
    unlocked.expect("released");
    waiter.served().await;
}

/// The runtime that created a client and its guard ends. Their session is kept by another one.
pub(crate) async fn a_guard_outlives_its_runtime(t: &Case) {
    let builder = t.builder().session_ttl(t.store.min_ttl());
    let (client, guard): (Client, LockGuard) = on_a_thread(move || {
        let short_lived = runtime();
        short_lived.block_on(async {
            let client = builder.connect().await.expect("connected");
            let guard = client.mutex("outlives").lock().await.expect("granted");
            (client, guard)
        })
    })
    .await;
    let ttl = client.session_ttl();
    throughout(ttl + ttl / 2, "the lock is held without its runtime", async || guard.is_valid())
        .await;
    assert_eq!(t.keys().await, [guard.key()]);
    let waiter = t.enqueue(&client, "outlives").await;
    drop(guard);
    waiter.served().await;
    t.queue_of(0).await;
}

/// A single-threaded runtime, and one with all workers blocked.
pub(crate) async fn a_blocked_runtime_keeps_its_lock(t: &Case) {
    let block = |name: &'static str, blocked: Runtime| {
        let builder = t.builder().session_ttl(t.store.min_ttl());
        on_a_thread(move || {
            blocked.block_on(async {
                let client = builder.connect().await.expect("connected");
                let guard = client.mutex(name).lock().await.expect("granted");
                let pause = client.session_ttl() * 2;
                // The fault: no other task of this runtime runs during the pause.
                let workers = blocked.metrics().num_workers();
                let others: Vec<_> = (0..workers)
                    .map(|_| tokio::spawn(async move { thread::sleep(pause) }))
                    .collect();
                thread::sleep(pause);
                assert!(guard.is_valid());
                for other in others {
                    other.await.expect("no panic");
                }
                (client, guard)
            })
        })
    };
    let single = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let several =
        Builder::new_multi_thread().worker_threads(3).enable_all().build().expect("a runtime");
    let ((one, first), (two, second)) =
        tokio::join!(block("single", single), block("several", several));
    assert_eq!(t.keys().await.len(), 2);
    for guard in [first, second] {
        assert!(guard.is_valid());
        guard.unlock().await.expect("released");
    }
    drop((one, two));
}

pub(crate) async fn a_waiter_of_a_dropped_runtime_leaves_the_queue(t: &Case) {
    let [one, two] = t.clients().await;
    let guard = one.mutex("queue").lock().await.expect("granted");
    let short_lived = runtime();
    let mutex = two.mutex("queue");
    short_lived.spawn(async move { mutex.lock().await });
    t.queue_of(2).await;
    short_lived.shutdown_background();
    eventually(SOON, "the waiter's key is deleted", async || t.keys().await == [guard.key()]).await;
    guard.unlock().await.expect("released");
}

/// `remaining()` stays below the TTL, falls, and rises with each keepalive.
pub(crate) async fn a_lock_is_kept_for_three_ttls(t: &Case) {
    let client = t.mortal_client().await;
    let ttl = client.session_ttl();
    let guard = client.mutex("kept").lock().await.expect("granted");
    let (token, key) = (guard.fencing_token(), guard.key().to_owned());
    let start = Instant::now();
    let (mut last, mut falls, mut renewals) = (guard.remaining(), 0, 0);
    let watched = async {
        while start.elapsed() < ttl * 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let remaining = guard.remaining();
            assert!(guard.is_valid(), "lost after {:?}", start.elapsed());
            assert!(remaining <= ttl, "{remaining:?} of {ttl:?}");
            falls += u32::from(remaining < last);
            renewals += u32::from(remaining > last);
            last = remaining;
        }
    };
    tokio::select! {
        () = watched => {}
        reason = guard.lost() => panic!("lost: {reason}"),
    }
    assert!(falls > 10, "remaining() fell {falls} times");
    assert!(renewals >= 3, "renewed {renewals} times in three TTLs");
    assert_eq!(guard.fencing_token(), token);
    assert_eq!(t.keys().await, [key]);
    guard.unlock().await.expect("released");
}

pub(crate) async fn run_returns_the_value(t: &Case) {
    let client = t.client().await;
    let guard = client.mutex("run").lock().await.expect("granted");
    let not_static = String::from("borrowed");
    let work = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        not_static.len()
    };
    assert_eq!(guard.run(work).await, Ok(8));
    assert!(guard.is_valid(), "run() does not consume the guard");
    guard.unlock().await.expect("released");
}

pub(crate) async fn work_is_done_under_a_lock_that_is_then_free(t: &Case) {
    let client = t.client().await;
    let mutex = client.mutex("run");
    let (taken, other) = (mutex.clone(), mutex.clone());
    // In its own task, as services do.
    let work = tokio::spawn(async move {
        taken.run(async |guard| (guard.is_valid(), other.try_lock().await)).await
    });
    let (valid, tried) = work.await.expect("no panic").expect("granted");
    assert!(valid && tried.expect("a reply").is_none());

    let guard = mutex.try_lock().await.expect("a reply").expect("the lock is free");
    let work = tokio::spawn(guard.run_owned(async { 42 }));
    assert_eq!(work.await.expect("no panic").expect("held"), 42);

    // `try_run` returns one `Result` for errors of the work and of the library.
    let parse = async |text: &str| text.parse::<u8>().map_err(Failure::from);
    assert_eq!(mutex.try_run(async |_| parse("42").await).await.expect("a number"), 42);
    let refused = mutex.try_run(async |_| parse("no number").await).await;
    refused.expect_err("not a number").downcast::<ParseIntError>().expect("the work's own error");
    let guard = mutex.try_lock().await.expect("a reply").expect("the lock is free");
    assert_eq!(guard.try_run(parse("42")).await.expect("a number"), 42);
    let refused = tokio::spawn(guard.try_run_owned(async { Err::<(), _>(Failure::from("no")) }));
    assert_eq!(refused.await.expect("no panic").expect_err("refused").to_string(), "no");

    let lost = mutex.run(async |guard| {
        t.store.delete_key(guard.key()).await;
        std::future::pending::<()>().await;
    });
    let error = within(SOON, "the work is stopped", lost).await.expect_err("the lock was lost");
    let is_lost = matches!(&error, Error::Lost { name, .. } if name == "run");
    assert!(is_lost, "{error:?}");
    let lost = mutex.try_run(async |guard| {
        t.store.delete_key(guard.key()).await;
        std::future::pending::<Result<(), Failure>>().await
    });
    let error = within(SOON, "the work is stopped", lost).await.expect_err("the lock was lost");
    let error = error.downcast::<Error>().expect("the library's error");
    assert!(matches!(*error, Error::Lost { .. }), "{error:?}");
    mutex.lock().await.expect("granted").unlock().await.expect("released");
}

pub(crate) async fn a_client_returns_its_health(t: &Case) {
    let client = t.client().await;
    assert!(!client.is_closed() && client.ping().await.is_ok());
    let Health::Confirmed { remaining, .. } = client.health() else {
        panic!("{:?}", client.health());
    };
    assert!(remaining > Duration::ZERO && remaining <= client.session_ttl());
    assert!(!client.owner().is_empty() && client.namespace().starts_with('/'));
    client.close().await.expect("closed");
    assert!(client.is_closed());
    assert_eq!(client.health(), Health::Closed);
    assert!(matches!(client.ping().await, Err(Error::Closed)));
}

pub(crate) async fn run_drops_the_future_at_loss(t: &Case) {
    struct Tattle(Arc<AtomicBool>);
    impl Drop for Tattle {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    let client = t.client().await;
    let guard = client.mutex("run").lock().await.expect("granted");
    let (started, dropped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (starting, tattle) = (Arc::clone(&started), Tattle(Arc::clone(&dropped)));
    let work = guard.run(async move {
        let _tattle = tattle;
        starting.store(true, SeqCst);
        std::future::pending::<()>().await;
    });
    let fault = async {
        eventually(SOON, "the future runs", async || started.load(SeqCst)).await;
        t.store.delete_key(guard.key()).await;
    };
    let (outcome, ()) = within(SOON, "run() returns", async { tokio::join!(work, fault) }).await;
    let lost = outcome.expect_err("the lock was lost");
    assert_eq!(lost.reason, guard.lost().await);
    assert!(dropped.load(SeqCst), "the future was not dropped");
    // With a lost lock, the future is never polled.
    let mut polled = false;
    guard.run(async { polled = true }).await.expect_err("the lock was lost");
    assert!(!polled);
}

/// Timeouts work on a plain thread, and in a runtime without timers.
pub(crate) async fn timeouts_work_without_a_caller_runtime(t: &Case) {
    let [client, other] = t.clients().await;
    let foreign = other.mutex("foreign").lock().await.expect("granted");
    let untimed = Builder::new_current_thread().build().expect("a runtime");
    for timers in [None, Some(&untimed)] {
        std::thread::scope(|scope| {
            let calls = || {
                let _entered = timers.map(Runtime::enter);
                without_a_runtime(time_out(&client));
            };
            scope.spawn(calls).join().expect("no timer of the caller's is used");
        });
    }
    std::thread::scope(|scope| scope.spawn(move || drop(untimed)).join().expect("no panic"));
    foreign.unlock().await.expect("released");
}

/// All calls with a timeout: behind calls of the same client, behind another client's lock, and on
/// a free lock.
async fn time_out(client: &Client) {
    const SHORT: Duration = Duration::from_millis(20);
    let free = client.mutex("free");
    let guard = free.lock_timeout(SOON).await.expect("no error").expect("the lock is free");
    for mutex in [&free, &client.mutex("foreign")] {
        assert!(mutex.lock_timeout(SHORT).await.expect("no error").is_none());
        assert!(mutex.try_lock().await.expect("no error").is_none());
    }
    let names = ["another", "free"];
    assert!(client.lock_all_timeout(names, SHORT).await.expect("no error").is_none());
    let (mut next, mut passed) = (pin!(free.lock_timeout(SOON)), Some(guard));
    let next = poll_fn(|context| {
        let polled = next.as_mut().poll(context);
        // It waits by now.
        drop(passed.take());
        polled
    });
    let guard = next.await.expect("no error").expect("released");
    guard.unlock().await.expect("released");

    let (rw_lock, semaphore) = (client.rw_lock("others"), client.semaphore("others", 1));
    let reader = rw_lock.read_timeout(SOON).await.expect("no error").expect("the lock is free");
    assert!(rw_lock.write_timeout(SHORT).await.expect("no error").is_none());
    reader.unlock().await.expect("released");
    let permit = semaphore.acquire_timeout(SOON).await.expect("no error").expect("there is one");
    assert!(semaphore.acquire_timeout(SHORT).await.expect("no error").is_none());
    permit.release().await.expect("released");
}
