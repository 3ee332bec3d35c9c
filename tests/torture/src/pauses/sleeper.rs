//! The process that is stopped: idle until it wakes, and then it acquires a lock at once.

use std::time::{Duration, Instant};

use distlock::{Client, LockGuard};
use distlock_testkit::{
    clock::{micros, uptime},
    event::report,
    orders::orders_for_life,
};
use tokio::time::timeout;

use super::HOLD;

/// The interval between checks of the guard.
const INTERVAL: Duration = Duration::from_micros(200);

/// Runs the process with its coordinator's arguments, one round per name that it reads.
pub(crate) fn run(arguments: &[String]) {
    let [url, namespace, ttl] = arguments else { panic!("{arguments:?}") };
    let ttl = Duration::from_millis(ttl.parse().expect("a number"));
    let mut rounds = orders_for_life();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let client =
            Client::builder(url).namespace(namespace).session_ttl(ttl).recheck_interval(ttl);
        let client = client.connect().await.expect("the client connects");
        while let Some(name) = rounds.recv().await {
            round(&client, &name, ttl).await;
        }
    });
}

async fn round(client: &Client, name: &str, ttl: Duration) {
    // The session is renewed, and nothing is held from now on.
    let before = client.mutex(format!("{name}-before")).lock().await;
    if let Ok(guard) = before {
        let _ = guard.unlock().await;
    }
    let lock = client.mutex(name);
    emit("idle", "");
    sleep_through(ttl / 2);
    match lock.lock().await {
        Ok(guard) => hold(guard).await,
        Err(error) => emit("refused", error),
    }
    emit("done", "");
}

/// Returns once this process has been stopped for at least `time` and resumed.
fn sleep_through(time: Duration) {
    let mut last = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(1));
        if last.elapsed() > time {
            return;
        }
        last = Instant::now();
    }
}

/// Checks the guard while it is valid, at most for [`HOLD`].
async fn hold(guard: LockGuard) {
    let (granted, mut valid) = (uptime(), 0);
    emit("granted", guard.key());
    let checking = std::thread::spawn(move || {
        loop {
            // Read before the check: the guard was valid at that time.
            let at = uptime();
            if !guard.is_valid() || at > granted + micros(HOLD) {
                return (guard, valid);
            }
            valid = at;
            std::thread::sleep(INTERVAL);
        }
    });
    let (guard, valid) = checking.join().expect("no panic");
    emit("valid", valid);
    let _ = timeout(Duration::from_secs(1), guard.unlock()).await;
}

fn emit(word: &str, rest: impl ToString) {
    report(word, rest).expect("the coordinator listens");
}
