//! The algorithm on a store that follows a script: each call may fail, lag or hang the first time,
//! and the caller may leave at any moment. In every case, no key is left behind, and a caller that
//! is granted the lock holds it.

mod cases;

use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use async_trait::async_trait;
use tokio::time::timeout;

use super::*;
use crate::{
    backend::{
        Backend, Entry, Event, Extras, Facts, Fate, Joined, Joiner, LeaveOutcome, LeaveRequest,
        LockStore, Present, Queue, SequencePoint, Specifics, Standing, Store, Ticket, Watch,
    },
    client::Client,
    queue::release::Release,
    store_kind::StoreKind,
};
use tokio::sync::watch;

use crate::{
    backend::error::StoreError,
    lost::LostReason,
    runtime::{Runtime, clock},
    session::{Session, Shared, fake_store},
};

/// What the first call does. Later calls reply at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Answers,
    /// Fails without an effect.
    Fails,
    /// Has its effect, but the reply is lost.
    LosesReply,
    /// Replies late.
    Lags,
    /// Has its effect, but never replies, until the adapter's timeout.
    Hangs,
    /// The adapter's timeout ends the call, and the server applies it long after that.
    LandsLate,
}

const ALL: [First; 5] =
    [First::Answers, First::Fails, First::LosesReply, First::Lags, First::Hangs];
const LAG: Duration = Duration::from_millis(5);
const TIMEOUT: Duration = Duration::from_millis(30);
const LANDS_AFTER: Duration = Duration::from_millis(120);

#[derive(Debug)]
struct Step {
    first: First,
    done: AtomicBool,
}

impl Step {
    fn new(first: First) -> Self {
        Self { first, done: AtomicBool::new(false) }
    }

    /// Applies `effect` as the script demands.
    async fn play<T>(&self, effect: impl FnOnce() -> T + Send) -> Result<T, StoreError> {
        let first =
            if self.done.swap(true, Ordering::Relaxed) { First::Answers } else { self.first };
        match first {
            First::Answers => Ok(effect()),
            First::Fails => Err(StoreError::Unavailable("refused".into())),
            First::LosesReply => {
                effect();
                Err(StoreError::Unknown("reply lost".into()))
            }
            First::Lags => {
                sleep(LAG).await;
                Ok(effect())
            }
            First::Hangs => {
                effect();
                sleep(TIMEOUT).await;
                Err(StoreError::Unknown("timeout".into()))
            }
            First::LandsLate => unreachable!("only joining can: see enqueue"),
        }
    }
}

/// A queue: the keys in their order.
#[derive(Debug)]
struct Script {
    keys: Mutex<Vec<Entry>>,
    changed: watch::Sender<()>,
    revision: AtomicU64,
    ttl: Duration,
    /// Whether keepalives get replies.
    answers: AtomicBool,
    closed: Mutex<Option<Duration>>,
    enqueue: Step,
    standing: Step,
    present: Step,
    watch: Step,
    leave: Step,
}

impl Script {
    /// Both kinds of reads have the same script.
    fn new([enqueue, look, watch, leave]: [First; 4]) -> Arc<Self> {
        Arc::new(Self {
            keys: Mutex::default(),
            changed: watch::Sender::new(()),
            revision: AtomicU64::new(1),
            ttl: Duration::from_secs(60),
            answers: AtomicBool::new(true),
            closed: Mutex::default(),
            enqueue: Step::new(enqueue),
            standing: Step::new(look),
            present: Step::new(look),
            watch: Step::new(watch),
            leave: Step::new(leave),
        })
    }

    fn add(&self, key: &str) -> Entry {
        let mut keys = self.keys.lock().unwrap();
        if let Some(entry) = keys.iter().find(|entry| *entry.key == *key) {
            return entry.clone();
        }
        let revision = self.revision.fetch_add(1, Ordering::Relaxed);
        let entry = Entry { key: key.into(), revision, token: revision, crowded: false };
        keys.push(entry.clone());
        entry
    }

    fn remove(&self, key: &str) -> bool {
        let mut keys = self.keys.lock().unwrap();
        let before = keys.len();
        keys.retain(|entry| *entry.key != *key);
        self.changed.send_replace(());
        keys.len() < before
    }

    fn keys(&self) -> Vec<String> {
        self.keys.lock().unwrap().iter().map(|entry| entry.key.to_string()).collect()
    }

    fn look(&self, key: &str) -> Standing {
        let keys = self.keys.lock().unwrap();
        match keys.iter().position(|entry| *entry.key == *key) {
            None => Standing::Evicted,
            Some(0) => Standing::First,
            Some(at) => Standing::Behind(Predecessor {
                entry: keys[at - 1].clone(),
                first: at == 1,
                seen: true,
            }),
        }
    }
}

#[derive(Debug)]
struct ScriptedBackend(Arc<Script>);

#[derive(Debug)]
struct ScriptedStore(Arc<Script>);

#[async_trait]
impl Backend for ScriptedBackend {
    fn kind(&self) -> StoreKind {
        StoreKind::Memory
    }

    async fn open(&self, _: Duration) -> Result<(Facts, Arc<dyn Store>), StoreError> {
        let facts =
            Facts { joins_late: true, ticket_in: Some(Ticket::parse), ..Facts::new(self.0.ttl) };
        Ok((facts, Arc::new(ScriptedStore(Arc::clone(&self.0)))))
    }
}

#[async_trait]
impl LockStore for ScriptedStore {
    async fn keep_alive(&self) -> Result<Duration, StoreError> {
        if self.0.answers.load(Ordering::Relaxed) {
            Ok(self.0.ttl)
        } else {
            std::future::pending().await
        }
    }

    async fn enqueue(
        &self,
        Joiner { ticket, .. }: Joiner<'_>,
        _: &[u8],
        join: Join,
    ) -> Result<Joined, StoreError> {
        let script = &self.0;
        let key = ticket.to_string();
        if script.enqueue.first == First::LandsLate
            && !script.enqueue.done.swap(true, Ordering::Relaxed)
        {
            let script = Arc::clone(script);
            tokio::spawn(async move {
                sleep(LANDS_AFTER).await;
                script.add(&key);
            });
            sleep(TIMEOUT).await;
            return Err(StoreError::Unknown("timeout".into()));
        }
        let joined = script.enqueue.play(|| {
            if join == Join::IfFree && script.keys().iter().any(|other| *other != key) {
                return Joined::Occupied;
            }
            let entry = script.add(&key);
            let at = SequencePoint(entry.revision);
            Joined::Queued { standing: script.look(&key), entry, at, alive: None, alone: false }
        });
        joined.await
    }

    async fn standing(&self, entry: &Entry) -> Result<Standing, StoreError> {
        self.0.standing.play(|| self.0.look(&entry.key)).await
    }

    async fn present(&self, entry: &Entry, ahead: &Entry) -> Result<Present, StoreError> {
        let there = |entry: &Entry| self.0.keys().contains(&entry.key.to_string());
        self.0.present.play(|| Present { own: there(entry), ahead: Fate::of(there(ahead)) }).await
    }

    async fn own_keys(&self) -> Result<Vec<Arc<str>>, StoreError> {
        Ok(self.0.keys().into_iter().map(Into::into).collect())
    }

    async fn watch(&self, entry: &Entry, _: bool) -> Result<Option<Watch>, StoreError> {
        let (script, key) = (Arc::clone(&self.0), entry.key.to_string());
        let mut changed = script.changed.subscribe();
        self.0.watch.play(|| ()).await?;
        if !script.keys().contains(&key) {
            return Ok(None);
        }
        Ok(Some(Box::pin(async move {
            while script.keys().contains(&key) {
                changed.changed().await.unwrap();
            }
            Ok(Event::Deleted)
        })))
    }

    async fn leave(
        &self,
        Joiner { ticket, .. }: Joiner<'_>,
        leave: LeaveRequest<'_>,
    ) -> Result<LeaveOutcome, StoreError> {
        let left = self.0.leave.play(|| LeaveOutcome {
            existed: self.0.remove(&ticket.to_string()),
            successor: leave
                .successor
                .is_some_and(|successor| self.0.keys().contains(&successor.key.to_string())),
            at: SequencePoint(self.0.revision.fetch_add(1, Ordering::Relaxed)),
        });
        left.await
    }

    async fn close(&self) -> Result<(), StoreError> {
        *self.0.closed.lock().unwrap() = Some(clock::now());
        Ok(())
    }
}

#[async_trait]
impl Specifics for ScriptedStore {
    async fn own_entry(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let keys = self.0.keys.lock().unwrap();
        Ok(keys.iter().find(|entry| *entry.key == *key).cloned())
    }

    async fn remove(&self, entry: &Entry) -> Result<bool, StoreError> {
        let there = self.0.keys.lock().unwrap().contains(entry);
        Ok(there && self.0.remove(&entry.key))
    }
}

#[async_trait]
impl Extras for ScriptedStore {
    /// Each ticket has its own queue here.
    async fn enqueue_all(
        &self,
        joiners: &[Joiner<'_>],
        _: &[u8],
    ) -> Result<Option<Vec<Joined>>, StoreError> {
        let (script, keys) =
            (&self.0, joiners.iter().map(|joiner| joiner.ticket.to_string()).collect::<Vec<_>>());
        if script.enqueue.first == First::LandsLate
            && !script.enqueue.done.swap(true, Ordering::Relaxed)
        {
            let script = Arc::clone(script);
            tokio::spawn(async move {
                sleep(LANDS_AFTER).await;
                keys.iter().for_each(|key| drop(script.add(key)));
            });
            sleep(TIMEOUT).await;
            return Err(StoreError::Unknown("timeout".into()));
        }
        let joined = script.enqueue.play(|| {
            let free = script.keys().is_empty();
            let join = |key: &String| {
                let entry = script.add(key);
                let at = SequencePoint(entry.revision);
                Joined::Queued { standing: Standing::First, entry, at, alive: None, alone: true }
            };
            free.then(|| keys.iter().map(join).collect())
        });
        joined.await
    }
}

async fn session(script: &Arc<Script>) -> Arc<Session> {
    let shared = Shared {
        runtime: Runtime::own().unwrap(),
        connect_timeout: TIMEOUT,
        request_timeout: TIMEOUT,
        recheck_interval: Duration::from_secs(60),
        ..fake_store::shared(Arc::new(ScriptedBackend(Arc::clone(script))))
    };
    Session::open(Arc::new(shared)).await.unwrap()
}
