//! Views of a store with ZooKeeper's difficulties: a listing takes several requests, and its watch
//! does not report writes to the keys. Whatever happens between two requests of a listing, the view
//! shows the final state, without the help of a recheck.

mod looks;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tokio::{sync::watch, time::timeout};

use super::*;
use crate::{
    backend::{
        Backend, Detail, Extras, Facts, Join, Joined, Joiner, LeaveOutcome, LeaveRequest, Listing,
        LockStore, Member, Specifics, Standing, Store,
    },
    runtime::Runtime,
    session::{
        Shared,
        fake_store::{self, FakeStore, grow},
    },
    store_kind::StoreKind,
};

/// An event at the first key or in the view.
#[derive(Clone, Copy, Debug)]
enum Effect {
    Written,
    Deleted,
    /// The key is deleted, and the next one is written to.
    Followed,
    /// The call fails, and the key is written to.
    Failed,
}

#[derive(Debug)]
struct Node {
    entry: Entry,
    version: u64,
}

#[derive(Debug)]
struct Script {
    nodes: Mutex<Vec<Node>>,
    changed: watch::Sender<()>,
    /// The number of steps so far.
    steps: AtomicUsize,
    /// The effect, and the number of steps after which it happens.
    plot: (usize, Effect),
}

impl Script {
    fn new(plot: (usize, Effect)) -> Arc<Self> {
        let entry = |revision| Entry {
            key: format!("k{revision}").into(),
            revision,
            token: revision,
            crowded: false,
        };
        let nodes = (1..=3).map(|revision| Node { entry: entry(revision), version: 0 }).collect();
        let (changed, steps) = (watch::Sender::new(()), AtomicUsize::new(0));
        Arc::new(Self { nodes: Mutex::new(nodes), changed, steps, plot })
    }

    fn step(&self) -> Result<(), StoreError> {
        if self.steps.fetch_add(1, Ordering::Relaxed) != self.plot.0 {
            return Ok(());
        }
        self.act();
        match self.plot.1 {
            Effect::Failed => Err(StoreError::Unavailable("as planned".into())),
            _ => Ok(()),
        }
    }

    fn act(&self) {
        let mut nodes = self.nodes.lock().unwrap();
        if matches!(self.plot.1, Effect::Deleted | Effect::Followed) {
            nodes.remove(0);
        }
        if !matches!(self.plot.1, Effect::Deleted) {
            nodes[0].version += 1;
        }
        drop(nodes);
        self.changed.send_replace(());
    }

    fn state(&self) -> Vec<(u64, u64)> {
        self.nodes.lock().unwrap().iter().map(|node| (node.entry.revision, node.version)).collect()
    }

    fn version(&self, entry: &Entry) -> Option<u64> {
        let nodes = self.nodes.lock().unwrap();
        nodes.iter().find(|node| node.entry == *entry).map(|node| node.version)
    }
}

#[derive(Clone, Debug)]
struct Scripted(Arc<Script>);

#[async_trait]
impl Backend for Scripted {
    fn kind(&self) -> StoreKind {
        StoreKind::Memory
    }

    async fn open(&self, _: Duration) -> Result<(Facts, Arc<dyn Store>), StoreError> {
        Ok((Facts::new(Duration::from_secs(60)), Arc::new(self.clone())))
    }
}

#[async_trait]
impl LockStore for Scripted {
    async fn keep_alive(&self) -> Result<Duration, StoreError> {
        Ok(Duration::from_secs(60))
    }

    async fn list(&self, _: &Queue, ask: Ask) -> Result<Listing, StoreError> {
        self.0.step()?;
        let (script, entries) = (Arc::clone(&self.0), || {
            let nodes = self.0.nodes.lock().unwrap();
            nodes.iter().map(|node| node.entry.clone()).collect::<Vec<_>>()
        });
        let (listed, mut changed) = (entries(), script.changed.subscribe());
        let members = listed.clone();
        let watch = ask.watch.then(|| {
            Box::pin(async move {
                let differ = |nodes: &[Node]| !nodes.iter().map(|node| &node.entry).eq(&listed);
                while !differ(&script.nodes.lock().unwrap()) {
                    changed.changed().await.unwrap();
                }
                Ok(Event::Touched)
            }) as Watch
        });
        self.0.step()?;
        let members = members.into_iter().filter_map(|entry| {
            let version = self.0.version(&entry)?;
            let detail = Detail { value: vec![], version, since: None, own: false };
            Some(Member { entry, label: None, detail: Some(detail) })
        });
        let members = members.collect();
        self.0.step()?;
        Ok(Listing { members, watch, ..Listing::default() })
    }

    async fn watch(&self, entry: &Entry, _: bool) -> Result<Option<Watch>, StoreError> {
        self.0.step()?;
        let (script, entry, mut changed) =
            (Arc::clone(&self.0), entry.clone(), self.0.changed.subscribe());
        let Some(version) = script.version(&entry) else { return Ok(None) };
        self.0.step()?;
        Ok(Some(Box::pin(async move {
            loop {
                match script.version(&entry) {
                    None => return Ok(Event::Deleted),
                    Some(now) if now != version => return Ok(Event::Touched),
                    Some(_) => changed.changed().await.unwrap(),
                }
            }
        })))
    }

    async fn own_keys(&self) -> Result<Vec<Arc<str>>, StoreError> {
        unreachable!("a view only looks")
    }

    async fn enqueue(&self, _: Joiner<'_>, _: &[u8], _: Join) -> Result<Joined, StoreError> {
        unreachable!("a view only looks")
    }

    async fn standing(&self, _: &Entry) -> Result<Standing, StoreError> {
        unreachable!("a view only looks")
    }

    async fn leave(&self, _: Joiner<'_>, _: LeaveRequest<'_>) -> Result<LeaveOutcome, StoreError> {
        unreachable!("a view only looks")
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Specifics for Scripted {}

impl Extras for Scripted {}

/// Runs a plot, and then causes the same effect again while no listing runs.
async fn play(plot: (usize, Effect)) {
    let script = Script::new(plot);
    let shared = Shared {
        runtime: Runtime::own().unwrap(),
        recheck_interval: Duration::from_secs(60),
        ..fake_store::shared(Arc::new(Scripted(Arc::clone(&script))))
    };
    let session = Session::open(Arc::new(shared)).await.unwrap();
    let mut view = View::new(Queue::new("/ns", "name").unwrap(), true);
    let state = |members: Vec<Member>| -> Vec<_> {
        let version = |member: &Member| member.detail.as_ref().unwrap().version;
        members.iter().map(|member| (member.entry.revision, version(member))).collect()
    };
    let mut shown = Vec::new();
    for again in [true, false] {
        let shows = async {
            while shown != script.state() {
                shown = state(view.next(&session, true).await.unwrap().members);
            }
        };
        let outcome = timeout(Duration::from_secs(10), shows).await;
        assert!(outcome.is_ok(), "{plot:?}: {shown:?} is shown, not {:?}", script.state());
        // The last event may have caused another listing, during which the plot happens.
        while let Ok(more) = timeout(Duration::from_millis(50), view.next(&session, true)).await {
            let before = std::mem::replace(&mut shown, state(more.unwrap().members));
            assert_ne!(before, shown, "{plot:?}: nothing has happened");
        }
        assert_eq!(shown, script.state(), "{plot:?}");
        let steps = script.steps.load(Ordering::Relaxed);
        assert!(steps <= 40, "{plot:?}: it looks again and again, {steps} steps");
        if again {
            script.act();
        }
    }
}

#[tokio::test]
async fn no_change_is_missed_between_steps_of_a_read() {
    let mut plots = tokio::task::JoinSet::new();
    for at in 0..12 {
        for effect in [Effect::Written, Effect::Deleted, Effect::Followed, Effect::Failed] {
            plots.spawn(play((at, effect)));
        }
    }
    while let Some(done) = plots.join_next().await {
        done.unwrap();
    }
}
