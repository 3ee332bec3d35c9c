//! A worker: a process that contends for the locks, and tells what it sees.

use std::{
    io::BufRead,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use distlock::{Client, Error};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::sleep,
};

use crate::{
    event::{Event, Journal, Manner, Outcome, micros, now},
    ledger,
    primitive::{Held, Mode, Part, Primitive, Want},
    register::Resource,
    sampler::Sampler,
};

/// Tasks of each worker; they share its one client.
const TASKS: usize = 3;

/// distlock's default; calls are to return within some of these.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What the coordinator says to a worker, a line each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Hold the locks only shortly; say `served` when all who wait now have been granted.
    Calm,
    /// As before.
    Resume,
    /// Block the runtime for so many milliseconds.
    Block(u64),
    /// Finish what has begun, close the client and exit.
    Finish,
}

impl Order {
    pub(crate) fn line(self) -> String {
        match self {
            Self::Calm => "calm\n".to_owned(),
            Self::Resume => "resume\n".to_owned(),
            Self::Block(millis) => format!("block {millis}\n"),
            Self::Finish => "finish\n".to_owned(),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        match line.split_once(' ') {
            None if line == "calm" => Some(Self::Calm),
            None if line == "resume" => Some(Self::Resume),
            None if line == "finish" => Some(Self::Finish),
            Some(("block", millis)) => millis.parse().ok().map(Self::Block),
            _ => None,
        }
    }
}

/// What a worker answers to [`Order::Calm`].
pub(crate) const SERVED: &str = "served";

struct Worker {
    client: Client,
    namespace: String,
    primitive: Primitive,
    /// Guards of one client may have the same key.
    handover: bool,
    register: SocketAddr,
    journal: Journal,
    sampler: Sampler,
    ttl: Duration,
    /// Values written are told apart by it.
    number: u64,
    calls: AtomicU64,
    wishes: AtomicU64,
    /// Tasks that have been waiting since before it became calm.
    unserved: AtomicUsize,
    calm: AtomicBool,
    /// How often it became so.
    calms: AtomicU64,
    finish: watch::Sender<bool>,
}

/// Runs a worker by its coordinator's arguments.
pub(crate) fn run(arguments: &[String]) {
    let [folder, name, number, url, namespace, ttl, register, seed, handover, primitive] = arguments else {
        panic!("{arguments:?}")
    };
    let journal = Journal::open(Path::new(folder), name).expect("the history can be written");
    tell_panics(&journal);
    fastrand::seed(seed.parse().expect("a number"));
    let ttl = Duration::from_millis(ttl.parse().expect("a number"));
    let (number, register) = (number.parse().expect("a number"), register.parse().expect("an address"));

    let (orders, mut inbox) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let _ = orders.send(Order::parse(&line).expect("an order"));
        }
        // The coordinator is gone. In good order the locks would be released.
        std::process::exit(0);
    });

    // One thread, so that blocking it blocks all.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let builder = Client::builder(url).namespace(namespace).session_ttl(ttl).owner(name);
        let builder = builder.recheck_interval(ttl).request_timeout(REQUEST_TIMEOUT).connect_timeout(CONNECT_TIMEOUT);
        let builder = match handover.parse().expect("a number") {
            0 => builder,
            max => builder.local_handover(max),
        };
        let client = loop {
            match builder.clone().connect().await {
                Ok(client) => break client,
                Err(error) if error.is_retryable() => sleep(Duration::from_millis(50)).await,
                Err(error) => panic!("{error:?}"),
            }
        };
        let worker = Arc::new(Worker {
            client,
            namespace: namespace.clone(),
            primitive: primitive.parse().expect("a primitive"),
            handover: handover != "0",
            register,
            sampler: Sampler::start(journal.clone()),
            journal,
            ttl,
            number,
            calls: AtomicU64::new(0),
            wishes: AtomicU64::new(0),
            unserved: AtomicUsize::new(0),
            calm: AtomicBool::new(false),
            calms: AtomicU64::new(0),
            finish: watch::Sender::new(false),
        });
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            tasks.spawn(Arc::clone(&worker).contend(task));
        }
        while let Some(order) = inbox.recv().await {
            match order {
                Order::Calm => {
                    worker.calm.store(true, SeqCst);
                    worker.unserved.store(TASKS, SeqCst);
                    worker.calms.fetch_add(1, SeqCst);
                }
                Order::Resume => worker.calm.store(false, SeqCst),
                Order::Block(millis) => worker.block(Duration::from_millis(millis)),
                Order::Finish => break,
            }
        }
        worker.finish.send_replace(true);
        while let Some(ended) = tasks.join_next().await {
            ended.expect("the task ends well");
        }
        let closed = worker.client.close().await;
        assert!(closed.is_ok(), "close: {closed:?}");
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

/// What a task holds, while others look at it.
struct Watched {
    held: Arc<Held>,
    told: JoinSet<()>,
}

impl Worker {
    /// The loop of one task: it wants a lock, waits, works, lets go.
    async fn contend(self: Arc<Self>, task: usize) {
        let mut resource = Resource::connect(self.register).await.expect("the registers answer");
        let mut finish = self.finish.subscribe();
        // The last calm in which this task had nothing left to wait for.
        let mut served = 0;
        while !*finish.borrow_and_update() {
            let calms = self.calms.load(SeqCst);
            if std::mem::replace(&mut served, calms) < calms && self.unserved.fetch_sub(1, SeqCst) == 1 {
                println!("{SERVED}");
            }
            let want = self.primitive.draw();
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
            sleep(Duration::from_millis(fastrand::u64(..20 + 10 * task as u64))).await;
        }
    }

    /// One call for the lock. Gives whether to ask again, too.
    async fn ask(&self, want: &Want, wish: u64) -> (Option<(Held, u64)>, bool) {
        let call = self.calls.fetch_add(1, SeqCst);
        let (manner, patience) = match wish % 8 {
            0 => (Manner::TryLock, Duration::ZERO),
            1 => (Manner::LockTimeout, self.ttl.mul_f64(fastrand::f64() / 2.0)),
            2 => (Manner::Dropped, Duration::from_micros(fastrand::u64(..200_000))),
            _ => (Manner::Lock, Duration::MAX),
        };
        let limit = match manner {
            // It may have to open a session first.
            Manner::TryLock => Some(CONNECT_TIMEOUT + REQUEST_TIMEOUT * 2 * want.requests()),
            Manner::LockTimeout => Some(patience),
            _ => None,
        };
        self.journal.tell(Event::Called { call, wish, lock: want.lock(), manner, limit: limit.map(micros) });
        let answer = want.get(&self.client, manner, patience).await;
        let returned = now();
        let outcome = match &answer {
            Ok(Some(held)) => {
                for (guard, (lock, token)) in held.guards().iter().zip(held.parts()) {
                    // Valid until then at least: the clock was read before.
                    let before = now();
                    let remaining = micros(guard.remaining());
                    let until = if remaining > 0 { before + remaining } else { 0 };
                    let (key, mode) = (guard.key().to_owned(), held.mode());
                    self.journal.tell_at(returned, Event::Granted { call, lock, token, key, until, mode });
                }
                Outcome::Done
            }
            Ok(None) => Outcome::Nothing,
            Err(error) if error.is_retryable() => Outcome::Refused(told(error)),
            Err(error) => Outcome::Failed(told(error)),
        };
        let again = manner == Manner::Lock && matches!(outcome, Outcome::Refused(_));
        self.journal.tell_at(returned, Event::Returned { call, outcome });
        if answer.is_err() {
            // A program would do no other.
            sleep(Duration::from_millis(20)).await;
        }
        (answer.ok().flatten().map(|held| (held, call)), again)
    }

    /// What the lock is for: reads the registers, takes its time, writes them. It trusts the lock blindly, as many a program does.
    async fn hold(&self, held: Held, call: u64, resource: &mut Resource) {
        let mut watched = self.watch(held);
        match watched.held.mode() {
            Mode::Exclusive => self.write(&watched.held, call, resource).await,
            Mode::Shared => self.read(&watched.held, resource).await,
            // Those who hold them would overwrite each other.
            Mode::Permits { .. } => sleep(self.work()).await,
        }
        if let Held::Lead(leadership) = &*watched.held
            && fastrand::u8(..3) == 0
        {
            self.call(Manner::Proclaim, None, leadership.proclaim("proclaimed")).await;
        }
        if matches!(*watched.held, Held::Write(_)) && fastrand::u8(..3) == 0 {
            let Some(reader) = self.downgrade(watched).await else { return };
            watched = self.watch(reader);
            self.read(&watched.held, resource).await;
        }
        self.release(watched).await;
    }

    async fn read(&self, held: &Held, resource: &mut Resource) {
        for (lock, token) in held.parts() {
            resource.read(&lock, Some(token)).await.expect("the registers answer");
        }
        sleep(self.work()).await;
    }

    async fn write(&self, held: &Held, call: u64, resource: &mut Resource) {
        let value = (self.number << 32) + call;
        let guarded = !self.handover && fastrand::bool();
        let mut read = Vec::new();
        for part @ (lock, token) in &held.parts() {
            if guarded {
                resource.see(lock, *token).await.expect("the registers answer");
            }
            let plain = resource.read(lock, None).await.expect("the registers answer").unwrap_or_default();
            let fenced = resource.read(lock, Some(*token)).await.expect("the registers answer");
            read.push((part.clone(), plain, fenced));
        }
        // Some write at once, most when they have worked.
        let early = fastrand::u8(..4) == 0;
        if guarded && early {
            self.put(held, value).await;
        }
        sleep(self.work()).await;
        for ((lock, token), plain, fenced) in read {
            resource.write(&lock, None, value, plain).await.expect("the registers answer");
            if let Some(fenced) = fenced {
                resource.write(&lock, Some(token), value, fenced).await.expect("the registers answer");
            }
            if guarded {
                resource.see(&lock, token).await.expect("the registers answer");
            }
        }
        if guarded && !early {
            self.put(held, value).await;
        }
    }

    /// Writes under each of the guards.
    async fn put(&self, held: &Held, value: u64) {
        for (guard, part) in held.guards().iter().zip(held.parts()) {
            let write = guard.put(ledger::path(&self.namespace, &part.0), ledger::text(part.1, value));
            self.call(Manner::Put, Some((part, value)), write).await;
        }
    }

    /// A call for what only a holder may do.
    async fn call(
        &self,
        manner: Manner,
        writes: Option<(Part, u64)>,
        what: impl Future<Output = distlock::Result<()>>,
    ) {
        let call = self.calls.fetch_add(1, SeqCst);
        let limit = Some(micros(REQUEST_TIMEOUT * 3));
        self.journal.tell(Event::Called { call, wish: u64::MAX, lock: String::new(), manner, limit });
        if let Some(((lock, token), value)) = writes {
            self.journal.tell(Event::Writing { call, lock, token, value });
        }
        let outcome = match what.await {
            Ok(()) => Outcome::Done,
            Err(Error::WriteUnconfirmed { .. }) => Outcome::Nothing,
            Err(error) if error.is_retryable() || matches!(error, Error::Lost { .. }) => Outcome::Refused(told(&error)),
            Err(error) => Outcome::Failed(told(&error)),
        };
        self.journal.tell(Event::Returned { call, outcome });
    }

    async fn downgrade(&self, watched: Watched) -> Option<Held> {
        for (lock, token) in watched.held.parts() {
            self.journal.tell(Event::Downgrading { lock, token });
        }
        let (asked, parts) = (now(), watched.held.parts());
        let Held::Write(writer) = self.unwatch(watched).await else { unreachable!("it is a writer") };
        match writer.downgrade().await {
            Ok(reader) => Some(Held::Read(reader)),
            Err(error) => {
                for (lock, token) in parts {
                    // Nobody knows since when.
                    self.journal.tell_at(asked, Event::Releasing { lock: lock.clone(), token, limit: None });
                    let outcome = match &error {
                        Error::Lost { .. } => Outcome::Refused(told(&error)),
                        _ => Outcome::Failed(told(&error)),
                    };
                    self.journal.tell(Event::Released { lock, token, outcome });
                }
                None
            }
        }
    }

    async fn release(&self, watched: Watched) {
        let (waits, parts) = (fastrand::u8(..5) > 0, watched.held.parts());
        let limit = waits.then(|| micros(REQUEST_TIMEOUT * 2));
        for (lock, token) in parts.clone() {
            self.journal.tell(Event::Releasing { lock, token, limit });
        }
        let held = self.unwatch(watched).await;
        let outcome = if waits {
            match held.release().await {
                Ok(()) => Outcome::Done,
                Err(error @ (Error::Lost { .. } | Error::ReleaseUnconfirmed { .. })) => Outcome::Refused(told(&error)),
                Err(error) => Outcome::Failed(told(&error)),
            }
        } else {
            drop(held);
            Outcome::Nothing
        };
        for (lock, token) in parts {
            self.journal.tell(Event::Released { lock, token, outcome: outcome.clone() });
        }
    }

    /// From now on the history has what becomes of it.
    fn watch(&self, held: Held) -> Watched {
        let held = Arc::new(held);
        self.sampler.watch_over(&held);
        let mut told = JoinSet::new();
        for (index, (lock, token)) in held.parts().into_iter().enumerate() {
            let (journal, held) = (self.journal.clone(), Arc::clone(&held));
            told.spawn(async move {
                let reason = held.guards()[index].lost().await;
                journal.tell(Event::Lost { lock, token, reason: format!("{reason:?}") });
            });
        }
        Watched { held, told }
    }

    async fn unwatch(&self, Watched { mut held, mut told }: Watched) -> Held {
        self.sampler.forget(&held);
        told.shutdown().await;
        loop {
            // The sampler may be looking at it.
            match Arc::try_unwrap(held) {
                Ok(held) => return held,
                Err(shared) => held = shared,
            }
            tokio::task::yield_now().await;
        }
    }

    /// How long the lock is needed: mostly shortly, now and then for a part of a TTL, and sometimes for so long that whoever loses the lock and goes on writes
    /// after the next one has begun.
    fn work(&self) -> Duration {
        let share = match fastrand::u8(..8) {
            _ if self.calm.load(SeqCst) => 0.0,
            0 => 1.0 + fastrand::f64() * 1.5,
            1 => 0.2 + fastrand::f64() * 0.8,
            _ => 0.0,
        };
        Duration::from_millis(fastrand::u64(1..20)) + self.ttl.mul_f64(share)
    }

    fn block(&self, time: Duration) {
        self.journal.tell(Event::Blocking { micros: micros(time) });
        std::thread::sleep(time);
        self.journal.tell(Event::Unblocked);
    }
}

/// An error with its cause.
fn told(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
