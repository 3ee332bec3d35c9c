//! Async closures that run while a lock of any kind is held.

use std::{
    future::pending,
    num::ParseIntError,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use distlock::{Error, LockGuard, Result};
use tokio::sync::oneshot;

use crate::common::{Case, SOON, eventually, within};

/// The error of a program.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Expands a macro for each primitive: with a lock, the names of its closure forms, and the guard
/// of one lock among those that the closure receives.
macro_rules! each_primitive {
    ($case:ident, $client:expr) => {
        $case!($client.mutex("a"), run, try_run, guard => guard);
        $case!($client.rw_lock("a"), run_read, try_run_read, guard => guard);
        $case!($client.rw_lock("a"), run_write, try_run_write, guard => guard);
        $case!($client.semaphore("a", 1), run, try_run, permit => permit);
        $case!($client.multi_lock(["a", "b"]), run, try_run, all => &all.guards()[1]);
    };
}

/// Sets its flag when it is dropped.
struct OnDrop(Arc<AtomicBool>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

pub(crate) async fn work_of_every_primitive_is_followed_by_a_release(t: &Case) {
    let client = t.client().await;
    let parse = async |text: &str| text.parse::<u8>().map_err(Failure::from);
    macro_rules! case {
        ($lock:expr, $run:ident, $try_run:ident, $held:ident => $guard:expr) => {
            let lock = $lock;
            let (key, valid) = lock
                .$run(async |$held| {
                    let guard: &LockGuard = $guard;
                    assert!(t.keys().await.iter().any(|key| key == guard.key()));
                    (guard.key().to_owned(), guard.is_valid())
                })
                .await
                .expect("granted");
            assert!(valid && !t.keys().await.contains(&key), "it is released when run returns");
            t.queue_of(0).await;

            let number = lock.$try_run(async |_| parse("42").await).await;
            assert_eq!(number.expect("a number"), 42);
            let error = lock.$try_run(async |_| parse("none").await).await.expect_err("no number");
            error.downcast::<ParseIntError>().expect("the error of the work");
            t.queue_of(0).await;

            let panicking = tokio::spawn(async move {
                // Without the message that a panic prints.
                lock.$run(async |_| std::panic::resume_unwind(Box::new("work failed"))).await
            });
            let panicked: Result<Result<()>, _> = within(SOON, "it panics", panicking).await;
            assert!(panicked.expect_err("it panics").is_panic());
            t.queue_of(0).await;
        };
    }
    each_primitive!(case, client);
}

pub(crate) async fn work_of_every_primitive_is_dropped_at_loss(t: &Case) {
    let client = t.client().await;
    macro_rules! case {
        ($lock:expr, $run:ident, $try_run:ident, $held:ident => $guard:expr) => {
            let (lock, dropped) = ($lock, Arc::new(AtomicBool::new(false)));
            let on_drop = OnDrop(Arc::clone(&dropped));
            let running = lock.$run(async move |$held| {
                let (_on_drop, guard): (_, &LockGuard) = (on_drop, $guard);
                t.store.delete_key(guard.key()).await;
                pending::<()>().await;
            });
            let error = within(SOON, "the work ends", running).await.expect_err("it was lost");
            let names_it = matches!(&error, Error::Lost { name, .. } if name == "a" || name == "b");
            assert!(names_it && dropped.load(SeqCst), "{error:?}");

            let running = lock.$try_run(async |$held| {
                let guard: &LockGuard = $guard;
                t.store.delete_key(guard.key()).await;
                pending::<Result<(), Failure>>().await
            });
            let error = within(SOON, "the work ends", running).await.expect_err("it was lost");
            let error = error.downcast::<Error>().expect("the library's error");
            assert!(matches!(*error, Error::Lost { .. }), "{error:?}");
            t.queue_of(0).await;
        };
    }
    each_primitive!(case, client);
}

pub(crate) async fn dropped_calls_of_every_primitive_release(t: &Case) {
    let client = t.client().await;
    macro_rules! case {
        ($lock:expr, $run:ident, $try_run:ident, $held:ident => $guard:expr) => {
            let (lock, dropped) = ($lock, Arc::new(AtomicBool::new(false)));
            let (on_drop, (started, starts)) = (OnDrop(Arc::clone(&dropped)), oneshot::channel());
            let running = tokio::spawn(async move {
                lock.$run(async |_| {
                    let _on_drop = on_drop;
                    started.send(()).expect("the test waits");
                    pending::<()>().await;
                })
                .await
            });
            within(SOON, "the work starts", starts).await.expect("it starts");
            running.abort();
            eventually(SOON, "the work is dropped", async || dropped.load(SeqCst)).await;
            t.queue_of(0).await;
        };
    }
    each_primitive!(case, client);
}

/// The data of a service.
struct App(u64);

impl App {
    async fn tick(&self, guard: &LockGuard) -> u64 {
        tokio::task::yield_now().await;
        assert!(guard.is_valid());
        self.0
    }
}

/// The calls can be spawned. That this compiles is half of the test.
pub(crate) async fn spawned_calls_of_every_primitive_capture_any_value(t: &Case) {
    let (client, app) = (t.client().await, Arc::new(App(7)));
    macro_rules! case {
        ($lock:expr, $run:ident, $try_run:ident, $held:ident => $guard:expr) => {
            let (lock, shared) = ($lock, Arc::clone(&app));
            let by_reference = tokio::spawn(async move {
                let app = &*shared;
                lock.$run(async |$held| app.tick($guard).await).await
            });
            let (lock, shared) = ($lock, Arc::clone(&app));
            let by_arc =
                tokio::spawn(
                    async move { lock.$run(async |$held| shared.tick($guard).await).await },
                );
            let (lock, shared) = ($lock, Arc::clone(&app));
            let moved = tokio::spawn(async move {
                lock.$try_run(async move |$held| Ok::<_, Error>(shared.tick($guard).await)).await
            });
            for working in [by_reference, by_arc, moved] {
                let done = within(SOON, "the work is done", working).await.expect("no panic");
                assert_eq!(done.expect("granted"), 7);
            }
            t.queue_of(0).await;
        };
    }
    each_primitive!(case, client);
}
