//! A fake store for unit tests, which determine each reply and its delay.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;

use crate::{
    backend::{
        Ask, Backend, Entry, Extras, Facts, Join, Joined, Joiner, LeaveOutcome, LeaveRequest,
        Listing, LockStore, Present, Queue, Result, SequencePoint, Specifics, Standing, Store,
        Ticket, Watch, Watched, Write, contract::store::watch_and_look,
    },
    lost::LostReason,
    runtime::{
        Runtime,
        clock::{Instant, sleep},
        executor::Executor,
    },
    session::{Session, Shared, store::SessionStore},
    store_kind::StoreKind,
    telemetry::Telemetry,
};

/// The replies to one kind of request, in order. The last one is repeated. Without any, requests
/// never return.
pub(crate) struct Answers<T>(Mutex<VecDeque<Answer<T>>>);

type Answer<T> = Box<dyn FnMut() -> (u64, Result<T>) + Send>;

impl<T> Default for Answers<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Answers<T> {
    /// Adds a reply that is sent after this many milliseconds.
    pub(crate) fn then(&self, after: u64, mut answer: impl FnMut() -> Result<T> + Send + 'static) {
        self.0.lock().unwrap().push_back(Box::new(move || (after, answer())));
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap().is_empty()
    }

    async fn next(&self) -> Result<T> {
        let next = {
            let mut answers = self.0.lock().unwrap();
            let next = answers.front_mut().map(|answer| answer());
            if answers.len() > 1 {
                answers.pop_front();
            }
            next
        };
        match next {
            Some((after, answer)) => {
                sleep(Duration::from_millis(after)).await;
                answer
            }
            None => std::future::pending().await,
        }
    }
}

/// A store that records its requests.
#[derive(Default)]
pub(crate) struct FakeStore {
    began: Option<Instant>,
    asked: Mutex<Vec<(String, u64)>>,
    pub(crate) keep_alive: Answers<Duration>,
    pub(crate) standing: Answers<Standing>,
    pub(crate) own_keys: Answers<Vec<Arc<str>>>,
    pub(crate) own_entry: Answers<Option<Entry>>,
    pub(crate) remove: Answers<bool>,
    pub(crate) watch: Answers<Option<Watch>>,
    /// The watches of waiters.
    pub(crate) urgent_watch: Answers<Option<Watch>>,
    pub(crate) ended: Answers<LostReason>,
    pub(crate) close: Answers<()>,
    pub(crate) list: Answers<Listing>,
    pub(crate) enqueue: Answers<Joined>,
    pub(crate) enqueue_all: Answers<Option<Vec<Joined>>>,
    pub(crate) leave: Answers<LeaveOutcome>,
    pub(crate) present: Answers<Present>,
    pub(crate) relabel: Answers<Option<Entry>>,
    pub(crate) commit: Answers<bool>,
    pub(crate) read: Answers<Option<Vec<u8>>>,
    facts: Mutex<Option<Facts>>,
    /// Without any reply here, sessions open at once.
    pub(crate) open: Answers<()>,
}

impl fmt::Debug for FakeStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FakeStore")
    }
}

impl FakeStore {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { began: Some(Instant::now()), ..Self::default() })
    }

    /// Changes the facts of sessions that are opened from now on.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Facts)) {
        change(self.facts.lock().unwrap().get_or_insert(Facts::new(TTL)));
    }

    fn ask(&self, what: String) {
        let after = u64::try_from(self.began.unwrap().elapsed().as_millis()).unwrap();
        self.asked.lock().unwrap().push((what, after));
    }

    /// Returns the number of all requests.
    pub(crate) fn asked_in_all(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// Returns when it received this request, in milliseconds since its creation.
    pub(crate) fn asked(&self, what: &str) -> Vec<u64> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|(asked, _)| asked == what).map(|(_, after)| *after).collect()
    }
}

#[async_trait]
impl LockStore for FakeStore {
    async fn keep_alive(&self) -> Result<Duration> {
        self.ask("keep_alive".into());
        self.keep_alive.next().await
    }

    async fn enqueue(&self, _: Joiner<'_>, _: &[u8], _: Join) -> Result<Joined> {
        self.ask("enqueue".into());
        self.enqueue.next().await
    }

    async fn standing(&self, entry: &Entry) -> Result<Standing> {
        self.ask(format!("standing {}", entry.key));
        self.standing.next().await
    }

    async fn present(&self, _: &Entry, _: &Entry) -> Result<Present> {
        self.ask("present".into());
        self.present.next().await
    }

    async fn own_keys(&self) -> Result<Vec<Arc<str>>> {
        self.ask("own_keys".into());
        self.own_keys.next().await
    }

    async fn watch(&self, entry: &Entry, urgent: bool) -> Result<Option<Watch>> {
        if urgent {
            self.ask(format!("urgent watch {}", entry.key));
            return self.urgent_watch.next().await;
        }
        self.ask(format!("watch {}", entry.key));
        self.watch.next().await
    }

    async fn leave(&self, _: Joiner<'_>, _: LeaveRequest<'_>) -> Result<LeaveOutcome> {
        self.ask("leave".into());
        self.leave.next().await
    }

    async fn close(&self) -> Result<()> {
        self.ask("close".into());
        self.close.next().await
    }

    async fn list(&self, _: &Queue, ask: Ask) -> Result<Listing> {
        self.ask("list".into());
        if ask.fresh {
            self.ask("fresh list".into());
        }
        if ask.watch {
            self.ask("watched list".into());
        }
        self.list.next().await
    }
}

#[async_trait]
impl Specifics for FakeStore {
    fn marks_releases(&self, ahead: &Entry) -> bool {
        *ahead.key == *"tells"
    }

    async fn watch_ahead(
        &self,
        ahead: &Entry,
        there: Option<SequencePoint>,
        own: Option<&Entry>,
    ) -> Result<Watched> {
        if let Some(SequencePoint(there)) = there {
            self.ask(format!("watch {} that existed at {there}", ahead.key));
        }
        watch_and_look(self.watch(ahead, true), own.map(|own| self.present(own, ahead))).await
    }

    async fn ended(&self) -> LostReason {
        match self.ended.next().await {
            Ok(reason) => reason,
            Err(error) => panic!("{error:?}"),
        }
    }

    async fn own_entry(&self, key: &str) -> Result<Option<Entry>> {
        self.ask(format!("own entry {key}"));
        self.own_entry.next().await
    }

    async fn remove(&self, entry: &Entry) -> Result<bool> {
        self.ask(format!("remove {} of {}", entry.key, entry.revision));
        self.remove.next().await
    }
}

#[async_trait]
impl Extras for FakeStore {
    async fn enqueue_all(&self, _: &[Joiner<'_>], _: &[u8]) -> Result<Option<Vec<Joined>>> {
        self.ask("enqueue_all".into());
        self.enqueue_all.next().await
    }

    async fn relabel(&self, _: Joiner<'_>, _: &Entry, _: &[u8]) -> Result<Option<Entry>> {
        self.ask("relabel".into());
        self.relabel.next().await
    }

    async fn commit(&self, _: &[Entry], writes: &[Write]) -> Result<bool> {
        self.ask("commit".into());
        for write in writes {
            self.ask(match write {
                Write::Put { key, .. } => format!("put {key}"),
                Write::Delete { key } => format!("delete {key}"),
            });
        }
        self.commit.next().await
    }

    async fn read(&self, _: &str) -> Result<Option<Vec<u8>>> {
        self.ask("read".into());
        self.read.next().await
    }
}

/// Returns the pauses between these times.
pub(crate) fn pauses(asked: &[u64]) -> Vec<u64> {
    asked.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// Checks that the pauses grow like those of a backoff.
#[track_caller]
pub(crate) fn grow(pauses: &[u64]) {
    assert!(pauses.len() >= 4, "{pauses:?}");
    for (pause, most) in pauses.iter().zip([20, 40, 80, 160]) {
        assert!((most / 2..=most + 2).contains(pause), "{pauses:?}");
    }
}

/// The TTL of the store's sessions.
const TTL: Duration = Duration::from_secs(60);

/// A backend whose sessions all share one store.
#[derive(Debug)]
struct Opens(Arc<FakeStore>);

#[async_trait]
impl Backend for Opens {
    fn kind(&self) -> StoreKind {
        StoreKind::Memory
    }

    async fn open(&self, _: Duration) -> Result<(Facts, Arc<dyn Store>)> {
        self.0.ask("open".into());
        if !self.0.open.is_empty() {
            self.0.open.next().await?;
        }
        let facts = self.0.facts.lock().unwrap().unwrap_or(Facts::new(TTL));
        // Where joins may be applied late, keys are named by their tickets.
        let facts = Facts { ticket_in: facts.joins_late.then_some(Ticket::parse as _), ..facts };
        Ok((facts, Arc::clone(&self.0) as _))
    }
}

/// Returns the runtime of the test, whose clock may be paused.
fn runtime() -> Runtime {
    Runtime::of(Executor::of(tokio::runtime::Handle::current()).unwrap())
}

/// Returns the shared state of a client on the runtime of the test.
pub(crate) fn shared(backend: Arc<dyn Backend>) -> Shared {
    Shared {
        backend,
        runtime: runtime(),
        namespace: "/ns".into(),
        ttl: TTL,
        owner: String::new(),
        connect_timeout: Duration::from_secs(5),
        request_timeout: Duration::from_secs(1),
        recheck_interval: Duration::from_secs(20),
        draining: Default::default(),
        telemetry: Telemetry::default(),
    }
}

impl FakeStore {
    pub(super) fn of_a_session(self: &Arc<Self>) -> SessionStore {
        SessionStore::new(Arc::clone(self) as _, Telemetry::default(), runtime())
    }

    /// Returns the shared state of a client whose sessions are in this store.
    pub(crate) fn shared(self: &Arc<Self>) -> Shared {
        self.keep_alive.then(0, || Ok(TTL));
        shared(Arc::new(Opens(Arc::clone(self))))
    }

    pub(crate) async fn session(self: &Arc<Self>) -> Arc<Session> {
        Session::open(Arc::new(self.shared())).await.unwrap()
    }
}
