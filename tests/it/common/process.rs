//! A separate process that can be killed: this test binary, started again to run one job.

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

/// How long the process holds a lock that it acquired on waking.
const HOLD: Duration = Duration::from_millis(2200);

/// The process. It is killed on drop. It also ends when its parent is killed.
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

    /// Returns the rest of the next output line that contains `words`.
    async fn said(&mut self, words: &str) -> String {
        let said = self.0.until(|line| line.split_once(words).map(|(_, said)| said.to_owned()));
        said.await.unwrap_or_else(|error| panic!("{error} and never printed {words:?}"))
    }

    /// Waits until a job with `sleeps` is idle.
    pub(crate) async fn idle(&mut self) {
        self.said(IDLE).await;
    }

    /// Stops the process, and returns when none of its threads runs.
    pub(crate) async fn stop(&self) {
        self.0.stop().await.expect("the process runs");
    }

    /// Resumes the process, and returns the key of the lock that it then acquires.
    pub(crate) async fn wake(&mut self) -> String {
        self.0.go_on().expect("the process is stopped");
        self.said(LOCKED).await
    }

    /// Returns when the guard was last valid, by [`uptime`].
    pub(crate) async fn last_valid(&mut self) -> u64 {
        self.said(VALID).await.parse().expect("a number")
    }

    /// Stops the process for `time` without its noticing. Returns what it found first after waking:
    /// whether the guard is valid or, for a job that writes, whether the store accepted any write.
    pub(crate) async fn sleep_through(&mut self, time: Duration) -> bool {
        self.stop().await;
        tokio::time::sleep(time).await;
        self.0.go_on().expect("the process is stopped");
        self.said(WOKE).await.parse().expect("true or false")
    }

    /// Makes the process drop guard and runtime at once and exit. Returns when it has exited.
    pub(crate) async fn leave(mut self) -> Instant {
        self.0.order("leave").await.expect("the process reads orders");
        let status = self.0.wait().await.expect("the process exits");
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
        // SIGKILL. The end of the process is awaited, so nothing of it runs afterwards.
        self.0.kill().await.expect("the process was running");
        Instant::now()
    }
}

/// Runs the job in the started process.
pub(crate) fn run_job() {
    let Ok(arguments) = std::env::var(VARIABLE) else { return };
    let [url, namespace, name, ttl, crowd, writes, sleeps] =
        arguments.split(' ').collect::<Vec<_>>().try_into().expect("seven parts");
    let ttl = Duration::from_millis(ttl.parse().expect("a number"));
    let (crowd, writes) = (crowd.parse().expect("a number"), writes.parse().expect("a number"));
    let sleeps = sleeps.parse().expect("true or false");
    let job =
        Job { namespace: namespace.to_owned(), name: name.to_owned(), ttl, crowd, writes, sleeps };
    // The process ends with its parent. It ends by exiting, since an orderly end would release the
    // lock.
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
                // On a busy machine its session may be lost, which the crowd ignores.
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
        let observed = Weak::clone(&weak);
        std::thread::spawn(move || {
            let mut last = Instant::now();
            while let Some(guard) = observed.upgrade() {
                let (now, valid) = (Instant::now(), guard.is_valid());
                drop(guard);
                // After a pause longer than the TTL, the store may have granted the lock to another
                // client.
                if now - last > ttl {
                    println!("\n{WOKE}{valid}");
                }
                last = now;
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        // The parent process ends this one.
        let _ = orders.recv().await;
        weak
    };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let observed = runtime.block_on(work);
    drop(runtime);
    // The observing thread may still have a reference to the guard.
    while observed.strong_count() > 0 {
        std::thread::yield_now();
    }
    std::process::exit(0);
}

/// Keeps an idle session until the process has been stopped, acquires a lock on waking, and reports
/// how long that was valid.
async fn lock_on_waking(url: &str, job: &Job) -> Weak<LockGuard> {
    let client = job.client(url).await;
    let before =
        client.mutex(format!("{}-before", job.name)).lock().await.expect("a lock of its own");
    before.unlock().await.expect("released");
    println!("\n{IDLE}");
    let mut last = Instant::now();
    loop {
        // Blocks, so that this thread is the first to notice the pause.
        std::thread::sleep(Duration::from_millis(1));
        if last.elapsed() > job.ttl / 2 {
            break;
        }
        last = Instant::now();
    }
    // The session may have expired during the pause.
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

/// Acquires its locks and writes under them: at once, and again first thing after a pause longer
/// than the TTL.
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
        assert!(written, "the job holds its lock");
    }
    // Read before printing: the process may be stopped at any instruction from then on.
    let mut last = Instant::now();
    println!("\n{GRANTED}{}", guards[0].fencing_token());
    loop {
        // Blocks the only thread that could write.
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
