//! What the soaked process does: everything that a program does with locks, over and over.

use std::{
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use distlock::{Builder, Client, Error, Result};
use distlock_testkit::orders::orders_for_life;
use tokio::{
    runtime::Handle,
    time::{sleep, timeout},
};

/// How often it tells how it is.
const REPORT: Duration = Duration::from_secs(1);

/// Locks held for long by one of the clients.
const HELD: usize = 20;

/// Waiters at one lock.
const QUEUE: usize = 20;

pub(super) const TTL: Duration = Duration::from_secs(5);

/// Runs the workload by its coordinator's arguments, until its standard input ends.
pub(crate) fn run(arguments: &[String]) {
    let [url, namespace, leaks] = arguments else { panic!("{arguments:?}") };
    // It is told nothing, and ends with the one that started it.
    drop(orders_for_life());
    let builder = Client::builder(url).namespace(namespace).session_ttl(TTL).recheck_interval(TTL);
    let library = runtime_of_the_library(&builder);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (one, two) = (connect(&builder).await, connect(&builder).await);
        let locks = Arc::new(AtomicU64::new(0));
        for number in 0..HELD {
            tokio::spawn(hold(one.clone(), format!("held-{number}")));
        }
        for number in 0..QUEUE {
            let client = if number % 2 == 0 { &one } else { &two };
            tokio::spawn(queue(client.clone(), Arc::clone(&locks)));
        }
        tokio::spawn(once(two.clone(), Arc::clone(&locks)));
        tokio::spawn(look(two.clone()));
        tokio::spawn(change_minds(one.clone()));
        tokio::spawn(come_and_go(builder));
        if leaks == "leak" {
            tokio::spawn(leak(two.clone()));
        }
        loop {
            println!("{} {}", library.metrics().num_alive_tasks(), locks.load(Relaxed));
            sleep(REPORT).await;
        }
    });
}

/// Wakes a thread, and knows from which runtime it was told to.
struct Alarm {
    sleeper: Thread,
    woken_from: OnceLock<Handle>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        if let Ok(runtime) = Handle::try_current() {
            let _ = self.woken_from.set(runtime);
        }
        self.sleeper.unpark();
    }
}

/// The library's own runtime, which it shows to nobody: where there is no other, it is the one from
/// which callers are woken.
fn runtime_of_the_library(builder: &Builder) -> Handle {
    let alarm = Arc::new(Alarm { sleeper: thread::current(), woken_from: OnceLock::new() });
    let waker = Waker::from(Arc::clone(&alarm));
    loop {
        let mut connecting = pin!(builder.clone().connect());
        while connecting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            thread::park();
        }
        if let Some(runtime) = alarm.woken_from.get() {
            return runtime.clone();
        }
    }
}

async fn connect(builder: &Builder) -> Client {
    loop {
        if let Some(client) = ok(builder.clone().connect().await) {
            return client;
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// `None` for an error that comes of a fault. Any other is a bug, and ends the soak.
fn ok<T>(result: Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Error::Lost { .. } | Error::ReleaseUnconfirmed { .. }) => None,
        Err(error) if error.is_retryable() => None,
        Err(error) => panic!("{error:?}"),
    }
}

/// Holds a lock for long, over and over.
async fn hold(client: Client, name: String) {
    loop {
        if let Some(guard) = ok(client.mutex(&name).lock().await) {
            let _ = timeout(Duration::from_secs(fastrand::u64(5..60)), guard.lost()).await;
            ok(guard.unlock().await);
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Stands in the queue of one lock, over and over.
async fn queue(client: Client, locks: Arc<AtomicU64>) {
    loop {
        if let Some(guard) = ok(client.mutex("queue").lock().await) {
            sleep(Duration::from_millis(20)).await;
            ok(guard.unlock().await);
            locks.fetch_add(1, Relaxed);
        }
    }
}

/// Locks that are taken once and never again.
async fn once(client: Client, locks: Arc<AtomicU64>) {
    for number in 0.. {
        if let Some(guard) = ok(client.mutex(format!("once-{number}")).lock().await) {
            // Every other one is only dropped.
            if number % 2 == 0 {
                ok(guard.unlock().await);
            }
            locks.fetch_add(1, Relaxed);
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Finds locks held.
async fn look(client: Client) {
    loop {
        ok(client.mutex("held-0").try_lock().await);
        ok(client.mutex("held-1").lock_timeout(Duration::from_millis(50)).await);
        sleep(Duration::from_millis(100)).await;
    }
}

/// Drops calls in the middle.
async fn change_minds(client: Client) {
    loop {
        for name in ["held-2", "free"] {
            let patience = Duration::from_micros(fastrand::u64(..20_000));
            let _ = timeout(patience, client.mutex(name).lock()).await.map(ok);
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Clients that live for one lock. Every other one is only dropped.
async fn come_and_go(builder: Builder) {
    for number in 0.. {
        let client = connect(&builder).await;
        ok(client.mutex("free").lock().await);
        if number % 2 == 0 {
            let _ = client.close().await;
        }
        sleep(Duration::from_secs(5)).await;
    }
}

/// What a soak has to find.
async fn leak(client: Client) {
    for number in 0.. {
        if let Some(guard) = ok(client.mutex(format!("leak-{number}")).lock().await) {
            std::mem::forget(guard);
        }
        sleep(Duration::from_secs(1)).await;
    }
}
