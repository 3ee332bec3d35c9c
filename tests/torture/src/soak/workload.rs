//! The workload of the process under test: everything that a program does with locks, over and
//! over.

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

/// The interval between reports.
const REPORT: Duration = Duration::from_secs(1);

/// The number of locks that a client holds for long.
const HELD: usize = 20;

/// The number of waiters for one lock.
const QUEUE: usize = 20;

pub(super) const TTL: Duration = Duration::from_secs(5);

/// Runs the workload with its coordinator's arguments, until its standard input ends.
pub(crate) fn run(arguments: &[String]) {
    let [url, namespace, leaks] = arguments else { panic!("{arguments:?}") };
    // It gets no orders, and ends with its parent.
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
        tokio::spawn(try_held(two.clone()));
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

/// Wakes a thread, and remembers the runtime of the caller.
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

/// Returns the library's own runtime, which is not public. Without another runtime, it is the one
/// from which callers are woken.
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

/// Returns `None` for an error caused by a fault. Any other error is a bug, and ends the soak.
fn ok<T>(result: Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Error::Lost { .. } | Error::ReleaseUnconfirmed { .. }) => None,
        Err(error) if error.is_retryable() => None,
        Err(error) => panic!("{error:?}"),
    }
}

/// Holds a lock for long, repeatedly.
async fn hold(client: Client, name: String) {
    loop {
        if let Some(guard) = ok(client.mutex(&name).lock().await) {
            let _ = timeout(Duration::from_secs(fastrand::u64(5..60)), guard.lost()).await;
            ok(guard.unlock().await);
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Waits in the queue of one lock, repeatedly.
async fn queue(client: Client, locks: Arc<AtomicU64>) {
    loop {
        if let Some(guard) = ok(client.mutex("queue").lock().await) {
            sleep(Duration::from_millis(20)).await;
            ok(guard.unlock().await);
            locks.fetch_add(1, Relaxed);
        }
    }
}

/// Acquires locks whose names are used once.
async fn once(client: Client, locks: Arc<AtomicU64>) {
    for number in 0.. {
        if let Some(guard) = ok(client.mutex(format!("once-{number}")).lock().await) {
            // Every other guard is dropped.
            if number % 2 == 0 {
                ok(guard.unlock().await);
            }
            locks.fetch_add(1, Relaxed);
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Tries locks that are held.
async fn try_held(client: Client) {
    loop {
        ok(client.mutex("held-0").try_lock().await);
        ok(client.mutex("held-1").lock_timeout(Duration::from_millis(50)).await);
        sleep(Duration::from_millis(100)).await;
    }
}

/// Drops pending calls.
async fn change_minds(client: Client) {
    loop {
        for name in ["held-2", "free"] {
            let limit = Duration::from_micros(fastrand::u64(..20_000));
            let _ = timeout(limit, client.mutex(name).lock()).await.map(ok);
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Connects clients for one lock each. Every other client is dropped without `close`.
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

/// Leaks guards, which a soak has to detect.
async fn leak(client: Client) {
    for number in 0.. {
        if let Some(guard) = ok(client.mutex(format!("leak-{number}")).lock().await) {
            std::mem::forget(guard);
        }
        sleep(Duration::from_secs(1)).await;
    }
}
