//! The context of a case. At its end the case must have left no keys.

use std::{
    collections::HashSet,
    pin::pin,
    sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
    time::{Duration, Instant},
};

use distlock::{
    Builder, Client, Leadership, LockGuard, MultiLockGuard, Permit, ReadGuard, Result, WriteGuard,
};
use distlock_testkit::proxies::Proxies;
use tokio::{task::JoinHandle, time::sleep};

use super::{Cost, Harness, Link, Servers, builder};

/// The time limit of anything that has no fault to overcome, on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// A case's own namespace in a store, with all that the case needs.
pub(crate) struct Case<S: ?Sized = dyn Harness> {
    pub(crate) namespace: String,
    clients: StdMutex<Vec<Client>>,
    links: StdMutex<Vec<Arc<dyn Link>>>,
    pub(crate) store: S,
}

impl<S: Harness> Case<S> {
    pub(crate) async fn new() -> Self {
        let namespace = format!("/t-{:016x}", fastrand::u64(..));
        let (clients, links) = (StdMutex::default(), StdMutex::default());
        let store = S::start_in(&namespace).await;
        Self { namespace, clients, links, store }
    }

    /// Checks that no keys are left, and closes the clients. Every case ends with it.
    pub(crate) async fn end(self) {
        let mut left = Vec::new();
        let found = poll(SOON, async || {
            left = self.keys().await;
            left.is_empty()
        });
        assert!(found.await, "keys are left: {left:?}");
        for client in self.clients.into_inner().unwrap_or_else(PoisonError::into_inner) {
            // Some cases cut off clients for good, so `close` may fail here.
            let _ = tokio::time::timeout(Duration::from_millis(100), client.close()).await;
        }
    }
}

impl<S: Servers + ?Sized> Case<S> {
    /// Starts proxies, which can cut the way to the store and inject other faults.
    pub(crate) async fn proxies(&self) -> Arc<Proxies> {
        let proxies = Arc::new(self.store.proxies().await);
        lock(&self.links).push(Arc::<Proxies>::clone(&proxies));
        proxies
    }
}

impl<S: Harness + ?Sized> Case<S> {
    /// Describes a client of this case, with a session that outlives every test.
    pub(crate) fn builder(&self) -> Builder {
        self.builder_for(&self.store.url())
    }

    pub(crate) fn builder_for(&self, url: &str) -> Builder {
        builder(url).namespace(&self.namespace).session_ttl(Duration::from_secs(15))
    }

    pub(crate) async fn client(&self) -> Client {
        self.connect(self.builder()).await
    }

    pub(crate) async fn clients<const N: usize>(&self) -> [Client; N] {
        let mut clients = Vec::new();
        for _ in 0..N {
            clients.push(self.client().await);
        }
        clients.try_into().expect("N clients")
    }

    /// Connects a client whose session expires soon without keepalives.
    pub(crate) async fn mortal_client(&self) -> Client {
        self.connect(self.builder().session_ttl(self.store.min_ttl())).await
    }

    /// Connects a client whose session expires soon without keepalives, through a link.
    pub(crate) async fn mortal_client_by(&self, link: &dyn Link) -> Client {
        let builder = self.builder_for(&link.url()).session_ttl(self.store.min_ttl());
        self.connect(builder.request_timeout(Duration::from_millis(500))).await
    }

    /// Connects a client with a short request timeout, through a link.
    pub(crate) async fn hasty_client_by(&self, link: &dyn Link) -> Client {
        // Connecting to an overloaded server may take longer than that timeout.
        let builder = self.builder_for(&link.url()).connect_timeout(SOON * 3);
        self.connect(builder.request_timeout(Duration::from_millis(500))).await
    }

    /// Connects a client and keeps it alive until the store has been checked for leftover keys. A
    /// leftover key must not vanish with its session.
    pub(crate) async fn connect(&self, builder: Builder) -> Client {
        let client = builder.connect().await.expect("a client connects");
        lock(&self.clients).push(client.clone());
        client
    }

    /// Opens a way to the store that can be cut. It stays open until the end of the case, since its
    /// clients release their locks through it.
    pub(crate) async fn link(&self) -> Arc<dyn Link> {
        let link = self.store.link().await;
        lock(&self.links).push(Arc::clone(&link));
        link
    }

    /// Makes all links reachable again.
    pub(crate) fn heal(&self) {
        for link in lock(&self.links).iter() {
            link.set_reachable(true);
        }
    }

    pub(crate) async fn keys(&self) -> Vec<String> {
        self.store.keys(&self.namespace).await
    }

    /// Returns a key outside the namespace, for the case's own data.
    pub(crate) fn data_key(&self, name: &str) -> String {
        format!("/data{}/{name}", self.namespace)
    }

    /// Waits until there are `length` keys. In a store without queues, waiters have none and at
    /// most one is expected.
    pub(crate) async fn queue_of(&self, length: usize) {
        let length = if self.store.queues() { length } else { length.min(1) };
        self.keys_within(SOON, length).await;
    }

    /// Waits up to `limit` until there are `count` keys.
    pub(crate) async fn keys_within(&self, limit: Duration, count: usize) {
        let what = format!("there are {count} keys");
        eventually(limit, &what, async || self.keys().await.len() == count).await;
    }

    /// Starts waiting for a lock, and returns when the waiter's key exists. Waiters must join one
    /// at a time, since each is identified by the key that is new.
    pub(crate) async fn enqueue(&self, client: &Client, name: &str) -> Waiter {
        let mutex = client.mutex(name);
        self.stands(async move { mutex.lock().await }).await
    }

    /// Lets clients join a lock's queue in this order.
    pub(crate) async fn enqueue_all<'a>(
        &self,
        clients: impl IntoIterator<Item = &'a Client>,
        name: &str,
    ) -> Vec<Waiter> {
        let mut waiters = Vec::new();
        for client in clients {
            waiters.push(self.enqueue(client, name).await);
        }
        waiters
    }

    /// Starts any call that waits in a queue, and returns when its key exists. See
    /// [`Self::enqueue`].
    pub(crate) async fn stands<T: Send + 'static>(
        &self,
        turn: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Waiter<T> {
        if !self.store.queues() {
            return Waiter { task: tokio::spawn(turn), key: String::new() };
        }
        let before: HashSet<_> = self.keys().await.into_iter().collect();
        let task = tokio::spawn(turn);
        let mut key = None;
        eventually(SOON, "the waiter's key exists", async || {
            key = self.keys().await.into_iter().find(|key| !before.contains(key));
            key.is_some()
        })
        .await;
        Waiter { task, key: key.expect("just seen") }
    }

    /// Acquires a lock with one client, and queues the other behind it.
    pub(crate) async fn contended(
        &self,
        holder: &Client,
        waiter: &Client,
        name: &str,
    ) -> (LockGuard, Waiter) {
        let guard = holder.mutex(name).lock().await.expect("granted");
        (guard, self.enqueue(waiter, name).await)
    }

    /// Returns how often to repeat an attempt, in memory and on servers. `DISTLOCK_ROUNDS`
    /// overrides the latter.
    pub(crate) fn rounds(&self, in_memory: usize, on_servers: usize) -> usize {
        let asked = std::env::var("DISTLOCK_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
        if self.store.url().starts_with("memory") { in_memory } else { asked.unwrap_or(on_servers) }
    }

    /// Deletes data that guarded writes have stored.
    pub(crate) async fn erase(&self, keys: impl IntoIterator<Item: AsRef<str>>) {
        for key in keys {
            self.store.erase(key.as_ref()).await;
        }
    }

    pub(crate) async fn cost(&self, sessions: &[i64]) -> Cost {
        self.store.cost(sessions).await
    }
}

fn lock<T>(mutex: &StdMutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A task that waits in a queue.
pub(crate) struct Waiter<T = LockGuard> {
    task: JoinHandle<Result<T>>,
    /// Empty if it is not known.
    pub(crate) key: String,
}

impl Waiter {
    /// Starts waiting for a lock, without waiting for the key to exist.
    pub(crate) fn of(client: &Client, name: &str) -> Self {
        let mutex = client.mutex(name);
        Self { task: tokio::spawn(async move { mutex.lock().await }), key: String::new() }
    }
}

impl<T: std::fmt::Debug> Waiter<T> {
    pub(crate) fn waits(&self) -> bool {
        !self.task.is_finished()
    }

    /// Fails if the call returns within `time`.
    pub(crate) async fn waits_throughout(&self, time: Duration, what: &str) {
        throughout(time, what, async || self.waits()).await;
    }

    /// Fails if, within `time`, the holder loses the lock or the waiter is granted it.
    pub(crate) async fn waits_behind(&self, holder: &LockGuard, time: Duration) {
        let what = "the holder keeps the lock and the waiter waits";
        throughout(time, what, async || holder.is_valid() && self.waits()).await;
    }

    /// Returns the outcome of the call, which must return within `limit`.
    pub(crate) async fn result(mut self, limit: Duration) -> Result<T> {
        within(limit, "the waiter's lock() returns", &mut self.task).await.expect("no panic")
    }

    pub(crate) async fn granted(self) -> T {
        self.result(SOON).await.expect("the waiter is granted")
    }

    /// Drops the waiting future.
    pub(crate) fn cancel(self) {}

    /// Waits until the lock is granted, and releases it.
    pub(crate) async fn served(self)
    where
        T: Held,
    {
        release([self]).await;
    }
}

impl<T> Drop for Waiter<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A guard of any primitive.
pub(crate) trait Held {
    async fn release(self) -> Result<()>;
}

macro_rules! held {
    ($($guard:ty: $release:ident),* $(,)?) => { $(
        impl Held for $guard {
            async fn release(self) -> Result<()> {
                self.$release().await
            }
        }
    )* };
}

held! {
    MultiLockGuard: unlock,
    LockGuard: unlock,
    ReadGuard: unlock,
    WriteGuard: unlock,
    Permit: release,
    Leadership: resign,
}

impl<T: Held + std::fmt::Debug> Held for Waiter<T> {
    async fn release(self) -> Result<()> {
        self.granted().await.release().await
    }
}

/// Releases all guards, one after the other. A waiter's is released as soon as it is granted.
pub(crate) async fn release(all: impl IntoIterator<Item: Held>) {
    for held in all {
        held.release().await.expect("released");
    }
}

/// Releases a guard, and returns what its waiter is granted.
pub(crate) async fn handover<T: std::fmt::Debug>(held: impl Held, waiter: Waiter<T>) -> T {
    release([held]).await;
    waiter.granted().await
}

/// Releases a guard, and then what its waiter is granted.
pub(crate) async fn release_both<T: Held + std::fmt::Debug>(held: impl Held, waiter: Waiter<T>) {
    release([handover(held, waiter).await]).await;
}

/// Returns `true` if the condition holds within `limit`.
pub(crate) async fn poll(limit: Duration, mut holds: impl AsyncFnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if holds().await {
            return true;
        }
        if start.elapsed() > limit {
            return false;
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Fails unless the condition holds within `limit`.
pub(crate) async fn eventually(limit: Duration, what: &str, holds: impl AsyncFnMut() -> bool) {
    assert!(poll(limit, holds).await, "not within {limit:?}: {what}");
}

/// Fails if the condition ceases to hold within `time`. Used for what must not happen.
pub(crate) async fn throughout(time: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let broken = poll(time, async || !holds().await).await;
    assert!(!broken, "not throughout {time:?}: {what}");
}

/// Awaits a future. Fails if it takes longer than `limit`.
pub(crate) async fn within<T>(limit: Duration, what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(limit, future)
        .await
        .unwrap_or_else(|_| panic!("not within {limit:?}: {what}"))
}

/// Polls a future to completion on this thread, without a runtime of its own. The caller may have
/// entered one.
pub(crate) fn without_a_runtime<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut future, start) = (pin!(future), Instant::now());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let left = SOON.checked_sub(start.elapsed()).expect("the future hangs");
        std::thread::park_timeout(left);
    }
}
