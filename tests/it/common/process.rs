//! A process of its own, to be killed: this very test binary once more, told to run one job.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use distlock::LockGuard;
use distlock_testkit::{child::Child, clock::uptime, orders::orders_for_life};

use super::{Elsewhere, Job, locked_at_last, raw::Raw};

/// The test that runs the job. It does nothing in an ordinary run.
pub(crate) const TEST: &str = "job_of_another_process";
const VARIABLE: &str = "DISTLOCK_TEST_JOB";
const GRANTED: &str = "job granted: ";
const WOKE: &str = "job woke: ";
const IDLE: &str = "job idle";
const LOCKED: &str = "job locked: ";
const VALID: &str = "job valid: ";

/// How long a lock is held that was taken on waking.
const HOLD: Duration = Duration::from_millis(2200);

/// The process. It is killed when this is dropped, and it ends with the one that started it, should
/// that be killed first.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(url: &str, job: &Job) -> Self {
        let [ttl, crowd, writes] =
            [job.ttl.as_millis(), job.crowd as u128, job.writes as u128].map(|n| n.to_string());
        let sleeps = job.sleeps.to_string();
        let arguments = [url, &job.namespace, &job.name, &ttl, &crowd, &writes, &sleeps].join(" ");
        let mut command = Child::again().expect("this binary");
        command.args(["--exact", TEST, "--nocapture", "--test-threads=1"]).env(VARIABLE, arguments);
        Self(Child::start(&mut command).expect("a process"))
    }

    /// What the process says next after these words.
    async fn said(&mut self, words: &str) -> String {
        let said = self.0.until(|line| line.split_once(words).map(|(_, said)| said.to_owned()));
        said.await.unwrap_or_else(|error| panic!("{error} and never said {words:?}"))
    }

    /// Of a job that sleeps: waits until it has nothing.
    pub(crate) async fn idle(&mut self) {
        self.said(IDLE).await;
    }

    /// Returns when none of its threads runs any more.
    pub(crate) async fn stop(&self) {
        self.0.stop().await.expect("it runs");
    }

    /// Lets it go on and take its lock; gives the key.
    pub(crate) async fn wake(&mut self) -> String {
        self.0.go_on().expect("it is stopped");
        self.said(LOCKED).await
    }

    /// When its guard was last valid, by [`uptime`].
    pub(crate) async fn last_valid(&mut self) -> u64 {
        self.said(VALID).await.parse().expect("a number")
    }

    /// Stops it for so long without its noticing. Gives what the guard said when it was first
    /// looked at afterwards: whether it is valid; of one that writes, whether the store took any of
    /// its writes.
    pub(crate) async fn sleep_through(&mut self, time: Duration) -> bool {
        self.stop().await;
        tokio::time::sleep(time).await;
        self.0.go_on().expect("it is stopped");
        self.said(WOKE).await.parse().expect("true or false")
    }

    /// Lets it drop everything at once, guard and runtime, and exit. Gives the moment.
    pub(crate) async fn leave(mut self) -> Instant {
        self.0.order("leave").await.expect("it listens");
        let status = self.0.wait().await.expect("it ends");
        assert!(status.success(), "{status}");
        Instant::now()
    }
}

#[async_trait]
impl Elsewhere for Process {
    async fn granted(&mut self) -> u64 {
        self.said(GRANTED).await.parse().expect("a token")
    }

    async fn crash(mut self: Box<Self>) -> Instant {
        // SIGKILL, and its end is awaited: nothing of it runs any more.
        self.0.kill().await.expect("it was running");
        Instant::now()
    }
}

/// The other side: what the process does.
pub(crate) fn run_job() {
    let Ok(arguments) = std::env::var(VARIABLE) else { return };
    let [url, namespace, name, ttl, crowd, writes, sleeps] =
        arguments.split(' ').collect::<Vec<_>>().try_into().expect("seven parts");
    let ttl = Duration::from_millis(ttl.parse().expect("a number"));
    let (crowd, writes) = (crowd.parse().expect("a number"), writes.parse().expect("a number"));
    let sleeps = sleeps.parse().expect("true or false");
    let job =
        Job { namespace: namespace.to_owned(), name: name.to_owned(), ttl, crowd, writes, sleeps };
    // It ends with the one that asked for it. By exiting: in good order the lock would be released.
    let mut orders = orders_for_life();
    let work = async move {
        if job.writes > 0 {
            return write_on_waking(url, &job).await;
        }
        if job.sleeps {
            return lock_on_waking(url, &job).await;
        }
        let mutex = job.client(url).await.mutex(&job.name);
        for _ in 0..crowd {
            let mutex = mutex.clone();
            tokio::spawn(async move {
                // On a busy machine its session may be lost. That is not what a crowd is for.
                if let Ok(guard) = mutex.lock().await {
                    let _ = guard.unlock().await;
                }
            });
        }
        if crowd > 0 {
            return std::future::pending().await;
        }
        let guard = Arc::new(mutex.lock().await.expect("the job's lock is granted"));
        println!("\n{GRANTED}{}", guard.fencing_token());
        let weak = Arc::downgrade(&guard);
        let looked_at = Weak::clone(&weak);
        std::thread::spawn(move || {
            let mut last = Instant::now();
            while let Some(guard) = looked_at.upgrade() {
                let (now, valid) = (Instant::now(), guard.is_valid());
                drop(guard);
                // After so long a pause the store may have given the lock away.
                if now - last > ttl {
                    println!("\n{WOKE}{valid}");
                }
                last = now;
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        // The process that started this one ends it.
        let _ = orders.recv().await;
        weak
    };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let looked_at = runtime.block_on(work);
    drop(runtime);
    // The last one who looks lets go of it.
    while looked_at.strong_count() > 0 {
        std::thread::yield_now();
    }
    std::process::exit(0);
}

/// Has an idle session until it has slept, locks as soon as it wakes, and tells how long that was
/// valid.
async fn lock_on_waking(url: &str, job: &Job) -> Weak<LockGuard> {
    let client = job.client(url).await;
    let before =
        client.mutex(format!("{}-before", job.name)).lock().await.expect("a lock of its own");
    before.unlock().await.expect("released");
    println!("\n{IDLE}");
    let mut last = Instant::now();
    loop {
        // Blocking, to be the first to know.
        std::thread::sleep(Duration::from_millis(1));
        if last.elapsed() > job.ttl / 2 {
            break;
        }
        last = Instant::now();
    }
    // Its session may have ended in its sleep.
    let guard = locked_at_last(&client.mutex(&job.name)).await;
    println!("\n{LOCKED}{}", guard.key());
    let (start, mut valid) = (Instant::now(), 0);
    loop {
        let at = uptime();
        if !guard.is_valid() || start.elapsed() > HOLD {
            break;
        }
        valid = at;
        std::thread::sleep(Duration::from_micros(200));
    }
    println!("\n{VALID}{valid}");
    std::future::pending().await
}

/// Takes its locks and writes under them: at once, and again when it has slept for longer than the
/// store keeps them, before it looks at anything else.
async fn write_on_waking(url: &str, job: &Job) -> Weak<LockGuard> {
    let (client, mut raw) = (job.client(url).await, Raw::connect(url, &job.namespace).await);
    let mut guards = Vec::new();
    for lock in 0..job.writes {
        guards.push(
            client
                .mutex(format!("{}-{lock}", job.name))
                .lock()
                .await
                .expect("the job's lock is granted"),
        );
        let written = raw.put(&guards[lock], &job.key(lock), "old").await;
        assert!(written, "the job's lock is held");
    }
    // Before it says so: it may be stopped from then on, at any instruction.
    let mut last = Instant::now();
    println!("\n{GRANTED}{}", guards[0].fencing_token());
    loop {
        // Blocking: this is what the one thread that could write is at.
        std::thread::sleep(Duration::from_millis(1));
        let now = Instant::now();
        let slept = now - std::mem::replace(&mut last, now);
        if slept > job.ttl {
            break;
        }
        tokio::task::yield_now().await;
    }
    let mut written = false;
    for (lock, guard) in guards.iter().enumerate() {
        written |= raw.put(guard, &job.key(lock), "late").await;
    }
    println!("\n{WOKE}{written}");
    std::future::pending().await
}
