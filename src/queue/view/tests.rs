//! A view of a store that is like ZooKeeper in what is hard about it: a list is no single look, and
//! its watch does not tell of what is written into the keys. Whatever happens, and whenever between
//! two steps of a look, the view shows the end of it, without looking again by itself.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tokio::{sync::watch, time::timeout};

use super::*;
use crate::{
    backend::{
        Backend, Detail, Extras, Facts, Join, Joined, Leaving, Left, Listing, Present, Standing,
        Store, name::Ticket,
    },
    session::{
        Shared,
        double::{self, Double, grow},
    },
};

/// What happens to the first key, or to the view.
#[derive(Clone, Copy, Debug)]
enum Effect {
    Written,
    Deleted,
    /// It is deleted, and the next one is written to.
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
    /// How many steps were taken.
    steps: AtomicUsize,
    /// What happens after so many.
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
    fn name(&self) -> &'static str {
        "script"
    }

    async fn open(&self, _: Duration) -> Result<(Facts, Arc<dyn Store>), StoreError> {
        Ok((Facts::new(Duration::from_secs(60)), Arc::new(self.clone())))
    }
}

#[async_trait]
impl Store for Scripted {
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
        Ok(Listing { members, notes: vec![], watch })
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

    async fn enqueue(&self, _: &Queue, _: Ticket, _: &[u8], _: Join) -> Result<Joined, StoreError> {
        unreachable!("a view only looks")
    }

    async fn standing(&self, _: &Entry) -> Result<Standing, StoreError> {
        unreachable!("a view only looks")
    }

    async fn present(&self, _: &Entry, _: &Entry) -> Result<Present, StoreError> {
        unreachable!("a view only looks")
    }

    async fn leave(&self, _: &Queue, _: Ticket, _: Leaving<'_>) -> Result<Left, StoreError> {
        unreachable!("a view only looks")
    }

    async fn ended(&self) -> LostReason {
        pending().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl Extras for Scripted {}

/// Runs a plot, and then lets the same happen once more when all is quiet.
async fn play(plot: (usize, Effect)) {
    let script = Script::new(plot);
    let shared = Shared {
        runtime: Runtime::own().unwrap(),
        recheck_interval: Duration::from_secs(60),
        ..double::shared(Arc::new(Scripted(Arc::clone(&script))))
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
        // A look may be due to what happened last, and meet with the plot.
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
async fn nothing_is_missed_between_two_steps_of_a_look() {
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

/// When a view looks, by a stopped clock.
struct Looks {
    store: Arc<Double>,
    session: Arc<Session>,
    view: View,
}

impl Looks {
    async fn new(values_change: bool, answers: impl FnOnce(&Double)) -> Self {
        let store = Double::new();
        answers(&store);
        let session = store.session().await;
        let view = View::new(Queue::new("/ns", "name").unwrap(), values_change);
        Self { store, session, view }
    }

    /// What is seen, if anything is by then.
    async fn within(&mut self, milliseconds: u64, watch: bool) -> Option<usize> {
        let next = self.view.next(&self.session, watch);
        let next = timeout(Duration::from_millis(milliseconds), next).await.ok()?;
        Some(next.unwrap().members.len())
    }

    /// How long it paused between two looks.
    fn pauses(&self) -> Vec<u64> {
        double::pauses(&self.store.asked("list"))
    }
}

/// So many who stand in the queue; the watch ends after this many milliseconds.
fn listing(members: u64, news: Option<u64>) -> Listing {
    let member = |revision| {
        let entry = Entry::new(format!("k{revision}"), revision);
        Member { entry, label: None, detail: None }
    };
    let watch = news.map(|after| {
        Box::pin(async move {
            sleep(Duration::from_millis(after)).await;
            Ok(Event::Touched)
        }) as Watch
    });
    Listing { members: (1..=members).map(member).collect(), notes: vec![], watch }
}

fn silent() -> StoreError {
    StoreError::Unavailable("no answer".into())
}

#[tokio::test(start_paused = true)]
async fn looks_that_fail_are_repeated_with_growing_pauses() {
    let mut looks = Looks::new(false, |store| store.list.then(0, || Err(silent()))).await;
    assert_eq!(looks.within(1000, true).await, None);
    grow(&looks.pauses());
}

/// A watch that ends at once, again and again, though nothing has changed.
#[tokio::test(start_paused = true)]
async fn news_of_nothing_are_looked_at_with_growing_pauses() {
    let mut looks = Looks::new(false, |store| {
        store.list.then(0, || Ok(listing(1, Some(0))));
        for _ in 0..6 {
            store.list.then(0, || Ok(listing(1, Some(0))));
        }
        store.list.then(0, || Ok(listing(2, Some(0))));
        store.list.then(0, || Ok(listing(2, Some(0))));
    })
    .await;
    assert_eq!(looks.within(0, true).await, Some(1), "at once");
    assert_eq!(looks.within(3000, true).await, Some(2));
    // The first look is without a pause, and so is one after it.
    grow(&looks.pauses()[1..]);
    let before = looks.pauses().len();
    // What has changed was worth it.
    assert_eq!(looks.within(500, true).await, None);
    grow(&looks.pauses()[before + 1..]);
}

#[tokio::test(start_paused = true)]
async fn without_news_it_looks_now_and_then() {
    for (watch, bounds) in [(true, 20_000..=25_001), (false, 500..=1501)] {
        let mut looks = Looks::new(true, |store| {
            store.list.then(0, || Ok(listing(0, None)));
        })
        .await;
        assert_eq!(looks.within(0, watch).await, Some(0));
        assert_eq!(looks.within(130_000, watch).await, None);
        let pauses = looks.pauses();
        assert!(pauses.len() >= 5, "{pauses:?}");
        assert!(pauses.iter().all(|pause| bounds.contains(pause)), "{watch}: {pauses:?}");
    }
}

/// Only where its value may change, and where there is room, is the first key watched.
#[tokio::test(start_paused = true)]
async fn the_first_key_is_watched_where_it_matters() {
    for (values_change, watch, watched) in
        [(true, true, 1), (true, false, 0), (false, true, 0), (false, false, 0)]
    {
        let mut looks = Looks::new(values_change, |store| {
            store.list.then(0, || Ok(listing(2, None)));
            store.urgent_watch.then(0, || Ok(Some(Box::pin(pending()))));
        })
        .await;
        assert_eq!(looks.within(400, watch).await, Some(2));
        assert_eq!(looks.store.asked("urgent watch k1").len(), watched, "{values_change} {watch}");
        // To be sure of its value it is read after the watch has begun.
        assert_eq!(looks.store.asked("list").len(), 1 + watched);
        assert_eq!(looks.within(400, watch).await, None);
        assert_eq!(looks.store.asked("urgent watch k1").len(), watched);
    }
}

/// A first key that is gone before it can be watched.
#[tokio::test(start_paused = true)]
async fn keys_that_are_gone_are_looked_for_with_growing_pauses() {
    let mut looks = Looks::new(true, |store| {
        store.list.then(0, || Ok(listing(1, None)));
        store.urgent_watch.then(0, || Ok(None));
    })
    .await;
    assert_eq!(looks.within(500, true).await, None);
    grow(&looks.pauses());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_ends_its_looks() {
    let told = LostReason::SessionExpired;
    let mut by_list = Looks::new(false, |store| {
        store.list.then(0, move || Err(StoreError::SessionGone(told)));
    })
    .await;
    assert_eq!(by_list.view.next(&by_list.session, true).await, Err(told));
    assert_eq!(by_list.session.deadline.lost_reason(), Some(told));
    let mut looks = Looks::new(false, |store| store.list.then(0, || Ok(listing(1, None)))).await;
    assert_eq!(looks.within(10, true).await, Some(1));
    looks.session.deadline.lose(told);
    assert_eq!(looks.view.next(&looks.session, true).await, Err(told));
    // In another one it looks at once; what it has told it does not tell again.
    looks.session = looks.store.session().await;
    let before = looks.store.asked("list").len();
    assert_eq!(looks.within(10, true).await, None);
    assert_eq!(looks.store.asked("list").len(), before + 1);
}

/// One look gives up after two requests' time, and after its fourth session.
#[tokio::test(start_paused = true)]
async fn one_look_is_bounded() {
    let queue = Queue::new("/ns", "name").unwrap();
    for (answer, opened, least, most) in [
        (silent as fn() -> StoreError, 1, 1000, 3001),
        (|| StoreError::SessionGone(LostReason::SessionExpired), 4, 0, 1),
        (|| StoreError::SessionGone(LostReason::ClientClosed), 1, 0, 1),
        (|| StoreError::Denied("no".into()), 1, 0, 1),
    ] {
        let store = Double::new();
        store.list.then(0, move || Err(answer()));
        store.close.then(0, || Ok(()));
        let sessions = Sessions::open(store.shared()).await.unwrap();
        let began = Instant::now();
        assert!(look(&sessions, &queue, true).await.is_err());
        let took = began.elapsed().as_millis();
        assert!((least..=most).contains(&took), "{:?}: {took}", answer());
        assert_eq!(store.asked("open").len(), opened, "{:?}", answer());
    }
}

/// Who watches for ever gets over failures, in whatever session there is, with growing pauses.
#[tokio::test(start_paused = true)]
async fn a_lookout_gets_over_lost_sessions() {
    let store = Double::new();
    for _ in 0..5 {
        store.list.then(0, || Err(StoreError::SessionGone(LostReason::SessionExpired)));
    }
    store.list.then(0, || Ok(listing(1, None)));
    store.list.then(0, || Err(StoreError::SessionGone(LostReason::SessionExpired)));
    store.close.then(0, || Ok(()));
    let sessions = Sessions::open(store.shared()).await.unwrap();
    let queue = Queue::new("/ns", "name").unwrap();
    let mut feed = Feed::new(&sessions, &queue, false, |sight| Some(sight.members.len()));
    assert_eq!(feed.next().await, Some(1));
    let asked = store.asked("list");
    grow(&double::pauses(&asked));
    // And then they are short again; its session is looked at now and then.
    assert!(timeout(Duration::from_secs(26), feed.next()).await.is_err());
    let asked = store.asked("list");
    grow(&double::pauses(&asked[6..]));
    sessions.close().await.unwrap();
    assert_eq!(feed.next().await, None);
    assert_eq!(feed.next().await, None);
}
