//! Clients on the store in memory, which several threads use.
//!
//! The clock is stopped, so no poll, no recheck and no timeout replaces a lost wake-up.

use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::{sync::Arc, time::Duration};

use shuttle::{future::block_on, thread};

use super::{join, signal::Signal};
use crate::{
    backend::{
        memory::{Memory, Space},
        remote::Remote,
    },
    client::Client,
    error::Error,
    primitives::guard::LockGuard,
    runtime::{Executor, Runtime, clock},
    session::{Session, Shared},
    sync::interrupt,
    telemetry::Telemetry,
};

const SECOND: Duration = Duration::from_secs(1);

/// The clients of a scenario, and the executor of their tasks. The clock is stopped.
pub(super) struct Clients<S> {
    executor: Executor,
    space: String,
    _stopped: S,
}

/// Returns a name that no other execution of the process has used. Each test has its own random
/// numbers, but all tests share the spaces.
fn new_space() -> String {
    static SPACES: AtomicUsize = AtomicUsize::new(0);
    format!("space {}", SPACES.fetch_add(1, SeqCst))
}

impl Clients<()> {
    pub(super) fn new() -> Clients<impl Sized> {
        let space = new_space();
        Clients { executor: Executor::default(), space, _stopped: clock::stop() }
    }
}

impl<S> Clients<S> {
    pub(super) fn shared(&self, space: &str) -> Shared {
        let remote = Remote {
            endpoints: vec![space.to_owned()],
            database: None,
            connect_timeout: SECOND,
            request_timeout: SECOND,
            credentials: None,
            tls: None,
            sasl: false,
            acl: None,
            allow_eviction: false,
            bridge: None,
            allow_plaintext: false,
            replicas: None,
            longest_ttl: SECOND * 60,
            pooled: false,
            namespace: "/ns".to_owned(),
            service: None,
        };
        Shared {
            backend: Arc::new(Memory::new(&remote)),
            runtime: Runtime::of(self.executor.clone()),
            namespace: remote.namespace,
            ttl: SECOND * 10,
            owner: "me".to_owned(),
            connect_timeout: SECOND,
            request_timeout: SECOND,
            recheck_interval: SECOND * 20,
            draining: Default::default(),
            telemetry: Telemetry::default(),
        }
    }

    fn connect(&self) -> Client {
        block_on(Client::open(self.shared(&self.space))).expect("the store replies")
    }

    /// A session whose tickets are reused.
    pub(super) fn session(&self) -> Arc<Session> {
        let session = block_on(Session::open(Arc::new(self.shared(&self.space))));
        let mut session = Arc::into_inner(session.expect("the store replies")).expect("no other");
        session.facts.keeps_old_names = true;
        Arc::new(session)
    }

    /// Ends the tasks of the clients. Their destructors run before the end of the execution.
    pub(super) fn end(self) {
        self.executor.finish();
    }
}

/// Counts the holders of a lock.
#[derive(Clone, Default)]
struct Holders(Arc<AtomicUsize>);

impl Holders {
    fn hold(&self, guard: LockGuard) {
        assert_eq!(self.0.fetch_add(1, SeqCst), 0, "two holders");
        assert!(guard.is_valid());
        interrupt();
        self.0.fetch_sub(1, SeqCst);
        block_on(guard.unlock()).expect("the store replies");
    }
}

/// Threads of one client share a mutex: each is granted the lock, one at a time.
pub fn threads_of_a_client_take_turns() {
    let clients = Clients::new();
    let (mutex, holders) = (Arc::new(clients.connect().mutex("a")), Holders::default());
    let (waits, held) = (Arc::clone(&mutex), holders.clone());
    let waiter = thread::spawn(move || {
        held.hold(block_on(waits.lock()).expect("the store replies"));
    });
    holders.hold(block_on(mutex.lock()).expect("the store replies"));
    join(waiter);
    drop(mutex);
    clients.end();
}

/// Two clients hand a lock over.
pub fn clients_take_turns() {
    let (clients, holders) = (Clients::new(), Holders::default());
    let threads = [(); 2].map(|()| clients.connect()).map(|client| {
        let holders = holders.clone();
        thread::spawn(move || {
            holders.hold(block_on(client.mutex("a").lock()).expect("the store replies"));
        })
    });
    threads.into_iter().for_each(join);
    clients.end();
}

/// Calls with the same reentrancy ID share one hold, whichever of them acquires it.
pub fn reentrant_calls_share_a_hold() {
    let clients = Clients::new();
    let (mutex, both) = (clients.connect().mutex("a").reentrant("me"), Signal::default());
    let (other, others) = (mutex.clone(), both.clone());
    let thread = thread::spawn(move || {
        let guard = block_on(other.lock()).expect("the store replies");
        others.ask();
        guard
    });
    let own = block_on(mutex.lock()).expect("the store replies");
    block_on(both.asked(1));
    let guard = join(thread);
    assert_eq!(guard.fencing_token(), own.fencing_token());
    drop((guard, own, mutex));
    clients.end();
}

/// A leader's proclamations are written one after the other.
pub fn proclamations_take_turns() {
    let clients = Clients::new();
    let election = clients.connect().election("a");
    let leadership = block_on(election.campaign("first")).expect("the store replies");
    let threads = ["second", "third"].map(|value| {
        let handle = leadership.handle();
        thread::spawn(move || block_on(handle.proclaim(value)).expect("it leads"))
    });
    threads.into_iter().for_each(join);
    let leader = block_on(election.leader()).expect("the store replies").expect("it leads");
    assert!([&b"second"[..], b"third"].contains(&leader.value()));
    drop((leadership, election));
    clients.end();
}

/// Threads that need a session open one for all of them.
pub fn threads_share_the_first_session() {
    let clients = Clients::new();
    let client = Client::lazy(clients.shared(&clients.space));
    let threads = ["a", "b"].map(|name| {
        let client = client.clone();
        thread::spawn(move || block_on(client.mutex(name).lock()).expect("the store replies"))
    });
    let guards = threads.map(join);
    assert_eq!(Space::named(&clients.space).sessions(), 1);
    drop((guards, client));
    clients.end();
}

/// A client that shuts down waits for a lock that was granted just before, or grants none.
pub fn shutdown_waits_for_holders() {
    let (clients, holding) = (Clients::new(), Arc::new(AtomicUsize::new(0)));
    let client = clients.connect();
    let (locks, held) = (client.clone(), Arc::clone(&holding));
    let thread = thread::spawn(move || match block_on(locks.mutex("a").lock()) {
        Ok(guard) => {
            held.store(1, SeqCst);
            interrupt();
            assert!(guard.is_valid(), "the lock is lost");
            held.store(0, SeqCst);
        }
        Err(error) => assert!(matches!(error, Error::Closed), "{error}"),
    });
    block_on(client.shutdown(SECOND)).expect("the store replies");
    assert_eq!(holding.load(SeqCst), 0, "a lock is held");
    join(thread);
    drop(client);
    clients.end();
}

/// A client that is closed ends its session, although a lock is held.
pub fn close_ends_the_session() {
    let clients = Clients::new();
    let client = clients.connect();
    let guard = block_on(client.mutex("a").lock()).expect("the store replies");
    let closes = client.clone();
    let thread = thread::spawn(move || block_on(closes.close()).expect("the store replies"));
    block_on(client.close()).expect("the store replies");
    assert_eq!(Space::named(&clients.space).sessions(), 0);
    assert!(!guard.is_valid());
    join(thread);
    drop((guard, client));
    clients.end();
}

/// Threads that name a space of the store in memory reach the same one.
pub fn threads_share_a_space() {
    let name = new_space();
    let threads = ["/ns/a", "/ns/b"].map(|key| {
        let name = name.clone();
        thread::spawn(move || Space::named(&name).set(key, b"1"))
    });
    Space::named(&name).set("/ns/c", b"1");
    threads.into_iter().for_each(join);
    let space = Space::named(&name);
    assert!(["/ns/a", "/ns/b", "/ns/c"].iter().all(|key| space.get(key).is_some()));
}

/// No token is used twice in a process, although the spaces of the store in memory are independent.
pub fn spaces_draw_different_tokens() {
    let clients = Clients::new();
    let spaces = ["a", "b"].map(|suffix| format!("{}{suffix}", clients.space));
    let threads = spaces.each_ref().map(|space| {
        let client = block_on(Client::open(clients.shared(space))).expect("the store replies");
        thread::spawn(move || block_on(client.mutex("a").lock()).expect("the store replies"))
    });
    let [one, other] = threads.map(join);
    assert_ne!(one.fencing_token(), other.fencing_token());
    drop((one, other));
    clients.end();
}
