//! A worker: a process that contends for the locks, and records what it sees.

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

/// distlock's defaults. Calls must return within a few of these.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The coordinator's orders to a worker, one line of JSON each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Hold locks only briefly. Report `served` when all current waiters have been granted.
    Calm,
    /// Hold locks as before.
    Resume,
    /// Block the runtime for this many milliseconds.
    Block(u64),
    /// Stop the process when no task holds or awaits a lock. Give up after this many milliseconds.
    StopIdle(u64),
    /// Stop the process when a task is about to acquire a lock. Give up after this many
    /// milliseconds.
    StopBeforeLock(u64),
    /// Finish pending work, close the client and exit.
    Finish,
}

/// The reply of a worker to [`Order::Calm`].
pub(crate) const SERVED: &str = "served";

/// Its report when it stops itself, and when it resumes or gave up stopping.
pub(crate) const STOPPING: &str = "stopping";
pub(crate) const WENT_ON: &str = "went-on";

/// The task of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) folder: PathBuf,
    /// The number of its place, and how many workers preceded it there. It distinguishes written
    /// values.
    pub(crate) number: u64,
    pub(crate) url: String,
    pub(crate) namespace: String,
    pub(crate) ttl: Duration,
    pub(crate) register: SocketAddr,
    pub(crate) seed: u64,
    pub(crate) store: Store,
    pub(crate) primitive: Primitive,
    pub(crate) telemetry: bool,
    pub(crate) brief: bool,
}

/// The maximum number of successive workers of a place.
const LIVES: u64 = 1 << 16;

impl Task {
    /// Returns the number of the first worker of a place.
    pub(crate) fn number(place: usize) -> u64 {
        (place as u64 + 1) * LIVES
    }

    /// Returns the number of tasks of the worker, which share one client.
    fn tasks(&self) -> usize {
        if self.brief { 8 } else { 3 }
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
    /// The number of tasks that have been waiting since before the last calm.
    unserved: AtomicUsize,
    calm: AtomicBool,
    /// The number of calms.
    calms: AtomicU64,
    finish: watch::Sender<bool>,
    /// Held for reading by every task that acquires or holds a lock.
    busy: RwLock<()>,
    /// The next task that acquires a lock has to stop the process first.
    stop_before_lock: AtomicBool,
}

/// Runs a worker with its coordinator's arguments.
pub(crate) fn run(arguments: &[String]) {
    let [task] = arguments else { panic!("{arguments:?}") };
    let task: Task = serde_json::from_str(task).expect("a task");
    let name = task.name();
    let journal = Journal::open(&task.folder, &name).expect("the history can be written");
    record_panics(&journal);
    let listener = task.telemetry.then(|| Listener::start(&journal));
    fastrand::seed(task.seed);

    let mut orders = orders_for_life();

    // A single thread, so that blocking it blocks everything.
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
                // A full disk is not retryable, and passes.
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
        for task in 0..worker.task.tasks() {
            tasks.spawn(Arc::clone(&worker).contend(task));
        }
        while let Some(order) = orders.recv().await {
            match serde_json::from_str(&order).expect("an order") {
                Order::Calm => {
                    worker.calm.store(true, SeqCst);
                    worker.unserved.store(worker.task.tasks(), SeqCst);
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
            ended.expect("no panic");
        }
        let closed = worker.client.close().await;
        assert!(closed.is_ok(), "close: {closed:?}");
        if let Some(listener) = listener {
            listener.all_ended().await;
        }
    });
}

/// Records every panic, including those of the library's threads.
fn record_panics(journal: &Journal) {
    let (journal, usual) = (journal.clone(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| {
        journal.record(Event::Panicked { message: info.to_string() });
        usual(info);
    }));
}

impl Worker {
    /// The loop of one task: acquires a lock, works, and releases it.
    async fn contend(self: Arc<Self>, task: usize) {
        let mut resource =
            Resource::connect(self.task.register).await.expect("the registers reply");
        let mut finish = self.finish.subscribe();
        // The last calm in which this task had nothing to wait for.
        let mut served = 0;
        while !*finish.borrow_and_update() {
            let calms = self.calms.load(SeqCst);
            if std::mem::replace(&mut served, calms) < calms
                && self.unserved.fetch_sub(1, SeqCst) == 1
            {
                emit(SERVED);
            }
            let busy = self.busy.read().await;
            let want = self.task.primitive.draw(self.task.brief);
            let wish = self.wishes.fetch_add(1, SeqCst);
            // A waiter repeats the call until it is granted.
            loop {
                let (held, again) = self.acquire(&want, wish).await;
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

    /// Makes one call to acquire the lock. Also returns whether to repeat it.
    async fn acquire(&self, want: &Want, wish: u64) -> (Option<(Held, u64)>, bool) {
        if self.stop_before_lock.swap(false, SeqCst) {
            stop_here();
        }
        let call = self.calls.fetch_add(1, SeqCst);
        let (manner, time_limit) = match wish % 8 {
            0 => (Manner::TryLock, Duration::ZERO),
            1 => (Manner::LockTimeout, self.task.ttl.mul_f64(fastrand::f64() / 2.0)),
            2 => (Manner::Dropped, Duration::from_micros(fastrand::u64(..200_000))),
            _ => (Manner::Lock, Duration::MAX),
        };
        let limit = match manner {
            // The call may have to open a session first.
            Manner::TryLock => Some(CONNECT_TIMEOUT + REQUEST_TIMEOUT * 2 * want.requests()),
            Manner::LockTimeout => Some(time_limit),
            _ => None,
        };
        let (lock, limit) = (want.lock(), limit.map(micros));
        self.journal.record(Event::Called { call, wish, lock, manner, limit });
        let result = want.get(&self.client, manner, time_limit).await;
        let returned = uptime();
        let outcome = match &result {
            Ok(Some(held)) => {
                for (guard, (lock, token)) in held.guards().iter().zip(held.parts()) {
                    // The guard is valid at least until then, since the clock is read first.
                    let before = uptime();
                    let remaining = micros(guard.remaining());
                    let until = if remaining > 0 { before + remaining } else { 0 };
                    let (key, mode) = (guard.key().to_owned(), held.mode());
                    self.journal.record_at(
                        returned,
                        Event::Granted { call, lock, token, key, until, mode },
                    );
                }
                Outcome::Done
            }
            Ok(None) => Outcome::Nothing,
            Err(error) if error.is_retryable() => Outcome::Refused(explain(error)),
            Err(error) => Outcome::Failed(explain(error)),
        };
        let again = manner == Manner::Lock && matches!(outcome, Outcome::Refused(_));
        self.journal.record_at(returned, Event::Returned { call, outcome });
        if result.is_err() {
            // As a program would.
            sleep(Duration::from_millis(20)).await;
        }
        (result.ok().flatten().map(|held| (held, call)), again)
    }

    /// Waits until no lock is held or awaited, and stops the process. The tasks acquire locks as
    /// soon as it resumes.
    async fn stop_idle(self: Arc<Self>, millis: u64) {
        match timeout(Duration::from_millis(millis), self.busy.write()).await {
            Ok(_nothing) => {
                // The last request is a while ago.
                sleep(self.task.ttl.mul_f64(fastrand::f64() / 4.0)).await;
                stop_here();
            }
            Err(_) => emit(WENT_ON),
        }
    }

    async fn stop_before_lock(self: Arc<Self>, millis: u64) {
        self.stop_before_lock.store(true, SeqCst);
        sleep(Duration::from_millis(millis)).await;
        if self.stop_before_lock.swap(false, SeqCst) {
            emit(WENT_ON);
        }
    }

    fn block(&self, time: Duration) {
        self.journal.record(Event::Blocking { micros: micros(time) });
        std::thread::sleep(time);
        self.journal.record(Event::Unblocked);
    }
}

/// Stops this process until another process resumes it.
fn stop_here() {
    emit(STOPPING);
    let own = rustix::process::getpid();
    rustix::process::kill_process(own, rustix::process::Signal::STOP)
        .expect("a process may stop itself");
    emit(WENT_ON);
}

/// Reports an event to the coordinator.
fn emit(word: &str) {
    report(word, "").expect("the coordinator listens");
}

/// Formats an error with its cause.
fn explain(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
