//! A worker: a process that contends for the locks, and tells what it sees.

mod hold;

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use distlock::{Client, Error};
use distlock_testkit::{
    clock::{micros, uptime},
    event::report,
    orders::orders_for_life,
    store::Store,
};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{RwLock, watch},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    event::{Event, Journal, Outcome},
    manner::Manner,
    primitive::{Held, Primitive, Want},
    register::Resource,
    sampler::Sampler,
    telemetry::Listener,
};

/// Tasks of each worker; they share its one client.
const TASKS: usize = 3;

/// distlock's default; calls are to return within some of these.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What the coordinator says to a worker: a line of JSON each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Hold the locks only shortly; say `served` when all who wait now have been granted.
    Calm,
    /// As before.
    Resume,
    /// Block the runtime for so many milliseconds.
    Block(u64),
    /// Stop yourself when you have nothing, neither a lock nor a wish for one; give it up after so
    /// many milliseconds.
    StopIdle(u64),
    /// Stop yourself when you are about to ask for a lock; give it up after so many milliseconds.
    StopBeforeLock(u64),
    /// Finish what has begun, close the client and exit.
    Finish,
}

/// What a worker answers to [`Order::Calm`].
pub(crate) const SERVED: &str = "served";

/// What it says when it stops itself, and when it goes on after that, or did not come to it in
/// time.
pub(crate) const STOPPING: &str = "stopping";
pub(crate) const WENT_ON: &str = "went-on";

/// What a worker is for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) folder: PathBuf,
    /// Of its place, and how many there were before it: values written are told apart by it.
    pub(crate) number: u64,
    pub(crate) url: String,
    pub(crate) namespace: String,
    pub(crate) ttl: Duration,
    pub(crate) register: SocketAddr,
    pub(crate) seed: u64,
    pub(crate) store: Store,
    pub(crate) primitive: Primitive,
    pub(crate) telemetry: bool,
}

/// How many workers may come after each other in one place.
const LIVES: u64 = 1 << 16;

impl Task {
    /// For the first one in a place.
    pub(crate) fn number(place: usize) -> u64 {
        (place as u64 + 1) * LIVES
    }

    pub(crate) fn name(&self) -> String {
        format!("worker{}.{}", self.number / LIVES - 1, self.number % LIVES)
    }
}

struct Worker {
    task: Task,
    client: Client,
    journal: Journal,
    sampler: Sampler,
    calls: AtomicU64,
    wishes: AtomicU64,
    /// Tasks that have been waiting since before it became calm.
    unserved: AtomicUsize,
    calm: AtomicBool,
    /// How often it became so.
    calms: AtomicU64,
    finish: watch::Sender<bool>,
    /// Held for reading by every task that has a wish.
    busy: RwLock<()>,
    /// The next task that asks for a lock is to stop the process first.
    stop_before_lock: AtomicBool,
}

/// Runs a worker by its coordinator's arguments.
pub(crate) fn run(arguments: &[String]) {
    let [task] = arguments else { panic!("{arguments:?}") };
    let task: Task = serde_json::from_str(task).expect("a task");
    let name = task.name();
    let journal = Journal::open(&task.folder, &name).expect("the history can be written");
    tell_panics(&journal);
    let listener = task.telemetry.then(|| Listener::start(&journal));
    fastrand::seed(task.seed);

    let mut orders = orders_for_life();

    // One thread, so that blocking it blocks all.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let builder = Client::builder(&task.url).namespace(&task.namespace).owner(name);
        let builder = builder
            .session_ttl(task.ttl)
            .recheck_interval(task.ttl)
            .request_timeout(REQUEST_TIMEOUT)
            .connect_timeout(CONNECT_TIMEOUT);
        let builder = builder.metric_label(str::to_owned);
        let client = loop {
            match builder.clone().connect().await {
                Ok(client) => break client,
                // A full disk is no error to be tried again, but one that passes.
                Err(error) if error.is_retryable() || matches!(error, Error::Backend { .. }) => {
                    sleep(Duration::from_millis(50)).await
                }
                Err(error) => panic!("{error:?}"),
            }
        };
        let worker = Arc::new(Worker {
            task,
            client,
            sampler: Sampler::start(journal.clone()),
            journal,
            calls: AtomicU64::new(0),
            wishes: AtomicU64::new(0),
            unserved: AtomicUsize::new(0),
            calm: AtomicBool::new(false),
            calms: AtomicU64::new(0),
            finish: watch::Sender::new(false),
            busy: RwLock::new(()),
            stop_before_lock: AtomicBool::new(false),
        });
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            tasks.spawn(Arc::clone(&worker).contend(task));
        }
        while let Some(order) = orders.recv().await {
            match serde_json::from_str(&order).expect("an order") {
                Order::Calm => {
                    worker.calm.store(true, SeqCst);
                    worker.unserved.store(TASKS, SeqCst);
                    worker.calms.fetch_add(1, SeqCst);
                }
                Order::Resume => worker.calm.store(false, SeqCst),
                Order::Block(millis) => worker.block(Duration::from_millis(millis)),
                Order::StopIdle(millis) => {
                    drop(tokio::spawn(Arc::clone(&worker).stop_idle(millis)))
                }
                Order::StopBeforeLock(millis) => {
                    drop(tokio::spawn(Arc::clone(&worker).stop_before_lock(millis)))
                }
                Order::Finish => break,
            }
        }
        worker.finish.send_replace(true);
        while let Some(ended) = tasks.join_next().await {
            ended.expect("the task ends well");
        }
        let closed = worker.client.close().await;
        assert!(closed.is_ok(), "close: {closed:?}");
        if let Some(listener) = listener {
            listener.all_ended().await;
        }
    });
}

/// A panic anywhere, in the library's threads too, goes into the history.
fn tell_panics(journal: &Journal) {
    let (journal, usual) = (journal.clone(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| {
        journal.tell(Event::Panicked { message: info.to_string() });
        usual(info);
    }));
}

impl Worker {
    /// The loop of one task: it wants a lock, waits, works, lets go.
    async fn contend(self: Arc<Self>, task: usize) {
        let mut resource =
            Resource::connect(self.task.register).await.expect("the registers answer");
        let mut finish = self.finish.subscribe();
        // The last calm in which this task had nothing left to wait for.
        let mut served = 0;
        while !*finish.borrow_and_update() {
            let calms = self.calms.load(SeqCst);
            if std::mem::replace(&mut served, calms) < calms
                && self.unserved.fetch_sub(1, SeqCst) == 1
            {
                tell(SERVED);
            }
            let busy = self.busy.read().await;
            let want = self.task.primitive.draw();
            let wish = self.wishes.fetch_add(1, SeqCst);
            // A waiter that means it asks again until it is granted.
            loop {
                let (held, again) = self.ask(&want, wish).await;
                if let Some((held, call)) = held {
                    self.hold(held, call, &mut resource).await;
                }
                if !again {
                    break;
                }
            }
            drop(busy);
            sleep(Duration::from_millis(fastrand::u64(..20 + 10 * task as u64))).await;
        }
    }

    /// One call for the lock. Gives whether to ask again, too.
    async fn ask(&self, want: &Want, wish: u64) -> (Option<(Held, u64)>, bool) {
        if self.stop_before_lock.swap(false, SeqCst) {
            stop_here();
        }
        let call = self.calls.fetch_add(1, SeqCst);
        let (manner, patience) = match wish % 8 {
            0 => (Manner::TryLock, Duration::ZERO),
            1 => (Manner::LockTimeout, self.task.ttl.mul_f64(fastrand::f64() / 2.0)),
            2 => (Manner::Dropped, Duration::from_micros(fastrand::u64(..200_000))),
            _ => (Manner::Lock, Duration::MAX),
        };
        let limit = match manner {
            // It may have to open a session first.
            Manner::TryLock => Some(CONNECT_TIMEOUT + REQUEST_TIMEOUT * 2 * want.requests()),
            Manner::LockTimeout => Some(patience),
            _ => None,
        };
        let (lock, limit) = (want.lock(), limit.map(micros));
        self.journal.tell(Event::Called { call, wish, lock, manner, limit });
        let answer = want.get(&self.client, manner, patience).await;
        let returned = uptime();
        let outcome = match &answer {
            Ok(Some(held)) => {
                for (guard, (lock, token)) in held.guards().iter().zip(held.parts()) {
                    // Valid until then at least: the clock was read before.
                    let before = uptime();
                    let remaining = micros(guard.remaining());
                    let until = if remaining > 0 { before + remaining } else { 0 };
                    let (key, mode) = (guard.key().to_owned(), held.mode());
                    self.journal
                        .tell_at(returned, Event::Granted { call, lock, token, key, until, mode });
                }
                Outcome::Done
            }
            Ok(None) => Outcome::Nothing,
            Err(error) if error.is_retryable() => Outcome::Refused(explain(error)),
            Err(error) => Outcome::Failed(explain(error)),
        };
        let again = manner == Manner::Lock && matches!(outcome, Outcome::Refused(_));
        self.journal.tell_at(returned, Event::Returned { call, outcome });
        if answer.is_err() {
            // A program would do no other.
            sleep(Duration::from_millis(20)).await;
        }
        (answer.ok().flatten().map(|held| (held, call)), again)
    }

    /// Waits until nothing is held or awaited, and stops itself then. The tasks ask for locks as
    /// soon as it goes on.
    async fn stop_idle(self: Arc<Self>, millis: u64) {
        match timeout(Duration::from_millis(millis), self.busy.write()).await {
            Ok(_nothing) => {
                // Since its last request there is a while.
                sleep(self.task.ttl.mul_f64(fastrand::f64() / 4.0)).await;
                stop_here();
            }
            Err(_) => tell(WENT_ON),
        }
    }

    async fn stop_before_lock(self: Arc<Self>, millis: u64) {
        self.stop_before_lock.store(true, SeqCst);
        sleep(Duration::from_millis(millis)).await;
        if self.stop_before_lock.swap(false, SeqCst) {
            tell(WENT_ON);
        }
    }

    fn block(&self, time: Duration) {
        self.journal.tell(Event::Blocking { micros: micros(time) });
        std::thread::sleep(time);
        self.journal.tell(Event::Unblocked);
    }
}

/// Stops this process, until somebody else lets it go on.
fn stop_here() {
    tell(STOPPING);
    let own = rustix::process::getpid();
    rustix::process::kill_process(own, rustix::process::Signal::STOP)
        .expect("a process may stop itself");
    tell(WENT_ON);
}

/// Tells the coordinator.
fn tell(word: &str) {
    report(word, "").expect("the coordinator listens");
}

/// An error with its cause.
fn explain(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
