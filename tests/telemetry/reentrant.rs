//! Recorders and subscribers are user code, and may call the library: no signal is emitted while
//! one of the library's mutexes is locked.

use std::{
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    task::{Context, Waker},
    thread,
    time::Duration,
};

use distlock::{Client, Error, LockGuard, memory::Space};

use super::listener::Listener;

/// Calls methods that lock each of the mutexes that a caller can reach: the client's, a guard's and
/// a queue's.
fn use_all(client: &Client, guard: Option<&LockGuard>) {
    let _ = (client.health(), client.session_ttl());
    if let Some(guard) = guard {
        let _ = (guard.is_valid(), guard.remaining());
        poll_once(guard.lost());
    }
    let mutex = client.mutex("visited");
    poll_once(mutex.try_lock());
    poll_once(mutex.lock());
    poll_once(mutex.queue());
}

fn poll_once<T>(future: impl Future<Output = T>) {
    let _ = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
}

/// A signal under a mutex would deadlock.
#[test]
fn listeners_may_use_the_library() {
    let (done, ended) = mpsc::channel();
    thread::spawn(move || {
        let listener = Listener::new("reentrant");
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(scenes(&listener));
        done.send(()).unwrap();
    });
    ended.recv_timeout(Duration::from_secs(60)).expect("no deadlock");
}

/// A session may expire on a busy machine; then the call is repeated.
async fn insist<T>(call: impl AsyncFn() -> Result<T, Error>) -> T {
    loop {
        match call().await {
            Ok(done) => return done,
            Err(error @ Error::InvalidArgument { argument: "name", .. }) => panic!("{error}"),
            Err(_) => {}
        }
    }
}

async fn scenes(listener: &Listener) {
    let space = Space::named(listener.name);
    let visits = Arc::new(AtomicU64::new(0));
    let ttl = Duration::from_secs(1);
    let builder = listener.builder().session_ttl(ttl).request_timeout(ttl / 4);
    let client = builder.connect().await.unwrap();
    let shown = Arc::new(Mutex::new(None::<Arc<LockGuard>>));
    let (visitor, seen, count) = (client.clone(), Arc::clone(&shown), Arc::clone(&visits));
    let _visiting = listener.visitor(move || {
        let guard = seen.lock().unwrap().clone();
        use_all(&visitor, guard.as_deref());
        count.fetch_add(1, Ordering::Relaxed);
    });
    let mutex = client.mutex(listener.lock("a"));
    let contenders: Vec<_> = (0..6)
        .map(|number| {
            let mutex = mutex.clone();
            tokio::spawn(async move {
                let guard = loop {
                    if let Ok(guard) = mutex.lock().await {
                        break guard;
                    }
                };
                if number % 2 == 0 {
                    let _ = guard.unlock().await;
                }
            })
        })
        .collect();
    for contender in contenders {
        contender.await.unwrap();
    }
    let names = ["b", "c"].map(|name| listener.lock(name));
    insist(async || client.lock_all(&names).await?.unlock().await).await;
    let lock = client.rw_lock(listener.lock("a"));
    insist(async || lock.write().await?.downgrade().await?.unlock().await).await;
    let semaphore = client.semaphore(listener.lock("a"), 2);
    insist(async || semaphore.acquire().await?.release().await).await;
    // Lost by a deletion, by the server's report, by the clock, and by closing the client.
    for loss in 0..4 {
        let guard = Arc::new(insist(async || mutex.lock().await).await);
        *shown.lock().unwrap() = Some(Arc::clone(&guard));
        match loss {
            0 => drop(space.delete(guard.key())),
            1 => drop(space.expire_session(guard.key())),
            2 => space.set_reachable(false),
            _ => client.close().await.unwrap(),
        }
        guard.lost().await;
        space.set_reachable(true);
        shown.lock().unwrap().take();
    }
    assert!(visits.load(Ordering::Relaxed) > 100, "{visits:?}");
}
