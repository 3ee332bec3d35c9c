//! The algorithm over a store that follows a script: each of its calls may fail, lag or hang the
//! first time, and the caller may go away at any moment. Whatever happens, no key stays behind, and
//! a caller that is told that it holds the lock does.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use async_trait::async_trait;
use tokio::time::timeout;

use super::*;
use crate::{
    backend::{
        Ask, Backend, Entry, Event, Extras, Facts, Fate, Joined, Leaving, Left, Listing, Moment,
        Present, Standing, Store, Watch,
        name::{Queue, Ticket},
    },
    client::Client,
    queue::release::Release,
};
use tokio::sync::watch;

use crate::{
    backend::error::StoreError,
    lost::LostReason,
    runtime::{Runtime, clock},
    session::{Session, Shared, double},
};

/// What the first call does; later ones answer at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Answers,
    /// Fails, and nothing was done.
    Fails,
    /// Does it, and the answer is lost.
    LosesReply,
    /// Answers late.
    Lags,
    /// Does it, and never answers: the adapter's timeout ends it.
    Hangs,
    /// The adapter's timeout ends it, and the server does it long after that.
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

    /// Does `effect` as the script has it.
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

/// One queue: the keys in their order.
#[derive(Debug)]
struct Script {
    keys: Mutex<Vec<Entry>>,
    changed: watch::Sender<()>,
    revision: AtomicU64,
    ttl: Duration,
    /// Proofs of life are answered.
    answers: AtomicBool,
    closed: Mutex<Option<Duration>>,
    enqueue: Step,
    standing: Step,
    present: Step,
    watch: Step,
    leave: Step,
}

impl Script {
    /// Both kinds of look have the same script.
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
    fn name(&self) -> &'static str {
        "script"
    }

    async fn open(&self, _: Duration) -> Result<(Facts, Arc<dyn Store>), StoreError> {
        Ok((Facts::new(self.0.ttl), Arc::new(ScriptedStore(Arc::clone(&self.0)))))
    }
}

#[async_trait]
impl Store for ScriptedStore {
    async fn keep_alive(&self) -> Result<Duration, StoreError> {
        if self.0.answers.load(Ordering::Relaxed) {
            Ok(self.0.ttl)
        } else {
            std::future::pending().await
        }
    }

    async fn enqueue(
        &self,
        _: &Queue,
        ticket: Ticket,
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
            let at = Moment(entry.revision);
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
        _: &Queue,
        ticket: Ticket,
        leave: Leaving<'_>,
    ) -> Result<Left, StoreError> {
        let left = self.0.leave.play(|| Left {
            existed: self.0.remove(&ticket.to_string()),
            successor: leave
                .successor
                .is_some_and(|successor| self.0.keys().contains(&successor.key.to_string())),
            at: Moment(self.0.revision.fetch_add(1, Ordering::Relaxed)),
        });
        left.await
    }

    async fn list(&self, _: &Queue, _: Ask) -> Result<Listing, StoreError> {
        unreachable!("a mutex needs none")
    }

    async fn ended(&self) -> LostReason {
        std::future::pending().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        *self.0.closed.lock().unwrap() = Some(clock::now());
        Ok(())
    }
}

#[async_trait]
impl Extras for ScriptedStore {
    /// One ticket is one queue here.
    async fn enqueue_all(
        &self,
        queues: &[(Queue, Ticket)],
        _: &[u8],
    ) -> Result<Option<Vec<Joined>>, StoreError> {
        let (script, keys) =
            (&self.0, queues.iter().map(|(_, ticket)| ticket.to_string()).collect::<Vec<_>>());
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
                let at = Moment(entry.revision);
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
        ..double::shared(Arc::new(ScriptedBackend(Arc::clone(script))))
    };
    Session::open(Arc::new(shared)).await.unwrap()
}

/// Waits until no key but `others` is left.
async fn only(script: &Script, others: &[&str], what: &str) {
    let mut changed = script.changed.subscribe();
    let clean = async {
        while script.keys() != others {
            changed.changed().await.unwrap();
        }
    };
    assert!(
        timeout(Duration::from_secs(20), clean).await.is_ok(),
        "{what}: left behind {:?}",
        script.keys()
    );
}

/// One caller, behind a holder that goes after a while, leaves after `patience`.
async fn play(first: [First; 4], wait: Option<Wait>, held: bool, patience: Option<Duration>) {
    let what = format!("{first:?} {wait:?} {held} {patience:?}");
    let script = Script::new(first);
    let session = session(&script).await;
    if held {
        script.add("holder");
    }
    let attempt = Attempt::in_session(&session, &Queue::new("/ns", "name").unwrap()).unwrap();
    let wait = wait.unwrap_or_else(|| Wait::Until(Instant::now() + Duration::from_millis(25)));
    let caller = acquire(attempt, wait, Mode::Exclusive);
    let release = async {
        sleep(Duration::from_millis(15)).await;
        if held {
            script.remove("holder");
        }
    };
    let (outcome, ()) =
        tokio::join!(timeout(patience.unwrap_or(Duration::from_secs(20)), caller), release);
    match outcome {
        Err(_) => assert!(patience.is_some(), "{what}: hangs"),
        Ok(Ok(Some(hold))) => {
            assert_eq!(script.keys(), [&*hold.own_key().entry.key], "{what}: granted");
            drop(hold);
        }
        Ok(Ok(None)) => assert!(!matches!(wait, Wait::Forever), "{what}: gave up"),
        Ok(Err(failure)) => {
            // Only who does not wait may be told that the store did not answer.
            let unanswered = matches!(failure, Failure::Final(Error::Unavailable { .. }));
            assert!(unanswered && matches!(wait, Wait::No), "{what}: {failure:?}");
        }
    }
    if first[0] == First::LandsLate {
        sleep(LANDS_AFTER).await;
    }
    only(&script, &[], &what).await;
    assert_eq!(session.deadline.lost_reason(), None, "{what}: the session is lost");
}

/// Every combination of scripts, ways to wait and moments to leave, all at once.
async fn play_all(enqueue: First) {
    let mut scenes = tokio::task::JoinSet::new();
    for standing in ALL {
        for gone in ALL {
            for leave in ALL {
                for wait in [Some(Wait::Forever), Some(Wait::No), None] {
                    for patience in [None, Some(0), Some(2), Some(8), Some(15), Some(16), Some(32)]
                    {
                        let patience = patience.map(Duration::from_millis);
                        for held in [true, false] {
                            scenes.spawn(play(
                                [enqueue, standing, gone, leave],
                                wait,
                                held,
                                patience,
                            ));
                        }
                    }
                }
            }
        }
    }
    while let Some(scene) = scenes.join_next().await {
        scene.unwrap();
    }
}

#[tokio::test]
async fn nothing_stays_behind_when_joining_answers() {
    play_all(First::Answers).await;
}

#[tokio::test]
async fn nothing_stays_behind_when_joining_fails() {
    play_all(First::Fails).await;
}

#[tokio::test]
async fn nothing_stays_behind_when_the_reply_to_joining_is_lost() {
    play_all(First::LosesReply).await;
}

#[tokio::test]
async fn nothing_stays_behind_when_joining_lags() {
    play_all(First::Lags).await;
}

#[tokio::test]
async fn nothing_stays_behind_when_joining_hangs() {
    play_all(First::Hangs).await;
}

#[tokio::test]
async fn nothing_stays_behind_when_joining_lands_late() {
    let mut scenes = tokio::task::JoinSet::new();
    for wait in [Some(Wait::Forever), Some(Wait::No), None] {
        for patience in [None, Some(0), Some(2), Some(40), Some(100)] {
            for held in [true, false] {
                let first = [First::LandsLate, First::Answers, First::Answers, First::Answers];
                scenes.spawn(play(first, wait, held, patience.map(Duration::from_millis)));
            }
        }
    }
    while let Some(scene) = scenes.join_next().await {
        scene.unwrap();
    }
}

/// A caller that waits behind these keys, and its own key.
async fn wait_behind(
    script: &Arc<Script>,
    ahead: &[&str],
) -> (Arc<Session>, tokio::task::JoinHandle<Result<Option<Hold>, Failure>>, String) {
    let session = session(script).await;
    for key in ahead {
        script.add(key);
    }
    let attempt = Attempt::in_session(&session, &Queue::new("/ns", "name").unwrap()).unwrap();
    let caller = tokio::spawn(acquire(attempt, Wait::Forever, Mode::Exclusive));
    while script.keys().len() == ahead.len() {
        sleep(Duration::from_millis(1)).await;
    }
    (session, caller, script.keys().pop().unwrap())
}

#[tokio::test]
async fn a_wake_up_is_not_a_grant() {
    let script = Script::new([First::Answers; 4]);
    let (_session, mut caller, own) = wait_behind(&script, &["holder", "middle"]).await;
    // The one just ahead gives up: its key goes, the lock stays held.
    script.remove("middle");
    assert!(timeout(Duration::from_millis(50), &mut caller).await.is_err(), "granted while held");
    script.remove("holder");
    let hold = caller.await.unwrap().unwrap().unwrap();
    assert_eq!((&*hold.own_key().entry.key, script.keys()), (&*own, vec![own.clone()]));
}

#[tokio::test]
async fn a_deleted_waiter_is_told() {
    let script = Script::new([First::Answers; 4]);
    let (_session, caller, own) = wait_behind(&script, &["holder"]).await;
    script.remove(&own);
    script.remove("holder");
    let failure = caller.await.unwrap().unwrap_err();
    assert!(matches!(failure, Failure::Final(Error::Evicted { .. })), "{failure:?}");
}

#[tokio::test]
async fn a_lost_session_ends_the_wait() {
    let script = Script::new([First::Answers; 4]);
    let (session, caller, _) = wait_behind(&script, &["holder"]).await;
    session.deadline.lose(LostReason::SessionExpired);
    let failure = caller.await.unwrap().unwrap_err();
    assert!(matches!(failure, Failure::Final(Error::SessionLost { .. })), "{failure:?}");
}

async fn held(script: &Arc<Script>) -> (Arc<Session>, Hold) {
    let session = session(script).await;
    let attempt = Attempt::in_session(&session, &Queue::new("/ns", "name").unwrap()).unwrap();
    let hold =
        acquire(attempt, Wait::Forever, Mode::Exclusive).await.unwrap().expect("nobody is ahead");
    (session, hold)
}

/// The first attempt to release did nothing for certain, and before the second one somebody deletes
/// the key.
#[tokio::test]
async fn a_key_that_somebody_deleted_was_not_released() {
    for (first, released) in
        [(First::Fails, false), (First::LosesReply, true), (First::Answers, false)]
    {
        let script = Script::new([First::Answers, First::Answers, First::Answers, first]);
        let (_session, hold) = held(&script).await;
        if first != First::LosesReply {
            script.remove(&hold.own_key().entry.key);
        }
        let outcome = hold.attempt.release_within(Duration::from_secs(20)).await;
        assert_eq!(matches!(outcome, Release::Released), released, "{first:?} {outcome:?}");
        assert!(released || matches!(outcome, Release::Absent), "{first:?} {outcome:?}");
    }
}

/// The deadline of its session has passed while nothing was held, and no proof comes.
#[tokio::test]
async fn a_try_ends_though_its_session_can_prove_nothing() {
    const TTL: Duration = Duration::from_secs(6);
    let mut script = Script::new([First::Answers; 4]);
    Arc::get_mut(&mut script).unwrap().ttl = TTL;
    script.answers.store(false, Ordering::Relaxed);
    let shared = Shared {
        runtime: Runtime::own().unwrap(),
        ttl: TTL,
        connect_timeout: TTL,
        request_timeout: TIMEOUT,
        recheck_interval: Duration::from_secs(60),
        ..double::shared(Arc::new(ScriptedBackend(Arc::clone(&script))))
    };
    let client = Client::open(shared, None).await.unwrap();
    sleep(TTL).await;
    let start = Instant::now();
    let error = client.mutex("a").try_lock().await.expect_err("it may not be granted");
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(start.elapsed() < TTL / 2, "{:?}", start.elapsed());
    only(&script, &[], "a try that was given up").await;
}

/// What a holder has under way when its deadline passes is its to do until the store could end the
/// session.
#[tokio::test]
async fn a_session_is_not_ended_before_its_margin() {
    const TTL: Duration = Duration::from_secs(1);
    let mut script = Script::new([First::Answers; 4]);
    Arc::get_mut(&mut script).unwrap().ttl = TTL;
    script.answers.store(false, Ordering::Relaxed);
    let opened = clock::now();
    let (session, hold) = held(&script).await;
    assert_eq!(session.deadline.lost().await, LostReason::DeadlinePassed);
    let lost = clock::now();
    let ended = async {
        while script.closed.lock().unwrap().is_none() {
            sleep(LAG).await;
        }
    };
    timeout(Duration::from_secs(20), ended).await.expect("it is ended then");
    let closed = script.closed.lock().unwrap().expect("just seen");
    assert!(
        closed >= opened + TTL,
        "lost after {:?}, ended after {:?}",
        lost - opened,
        closed - opened
    );
    drop(hold);
}

/// Several queues are joined in one request; whatever becomes of that, all of the keys are held or
/// none is there.
#[tokio::test]
async fn nothing_stays_behind_when_joining_several() {
    let mut scenes = tokio::task::JoinSet::new();
    for first in [
        First::Answers,
        First::Fails,
        First::LosesReply,
        First::Lags,
        First::Hangs,
        First::LandsLate,
    ] {
        for leave in ALL {
            for patience in [0, 2, 8, 1000].map(Duration::from_millis) {
                for held in [true, false] {
                    scenes.spawn(join_several(first, leave, patience, held));
                }
            }
        }
    }
    while let Some(done) = scenes.join_next().await {
        done.unwrap();
    }
}

async fn join_several(first: First, leave: First, patience: Duration, held: bool) {
    let what = format!("{first:?} {leave:?} {patience:?} {held}");
    let script = Script::new([first, First::Answers, First::Answers, leave]);
    let session = session(&script).await;
    if held {
        script.add("holder");
    }
    let queues = ["a", "b", "c"].map(|name| Queue::new("/ns", name).unwrap());
    let attempts =
        queues.iter().map(|queue| Attempt::in_session(&session, queue).unwrap()).collect();
    let joining = Carried::whole(&session.shared.runtime, Attempt::join_all(attempts));
    match timeout(patience, joining).await {
        Ok(Ok(Some(entered))) => {
            assert!(!held, "{what}: joined behind somebody");
            let mut holds = Vec::new();
            for entered in entered {
                holds.push(
                    hold(entered, Wait::Forever, Mode::Exclusive)
                        .await
                        .unwrap()
                        .expect("nobody is ahead"),
                );
            }
            let keys: Vec<_> =
                holds.iter().map(|hold| hold.own_key().entry.key.to_string()).collect();
            assert_eq!(script.keys(), keys, "{what}: granted");
        }
        Ok(Ok(None)) => assert!(held, "{what}: nobody is there"),
        Ok(Err(error)) => {
            assert!(error.is_transient() && first != First::Answers, "{what}: {error:?}")
        }
        Err(_) => assert!(patience < TIMEOUT, "{what}: hangs"),
    }
    if first == First::LandsLate {
        sleep(LANDS_AFTER).await;
    }
    only(&script, if held { &["holder"] } else { &[] }, &what).await;
    let done = async {
        while session.deadline.vitals().busy {
            sleep(LAG).await;
        }
    };
    assert!(timeout(Duration::from_secs(20), done).await.is_ok(), "{what}: a claim is left");
    assert_eq!(session.deadline.lost_reason(), None, "{what}: the session is lost");
}
