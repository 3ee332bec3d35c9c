//! The process that is stopped: idle until it wakes, and then it locks at once.

use std::time::{Duration, Instant};

use distlock::{Client, LockGuard};
use distlock_testkit::{
    clock::{micros, uptime},
    event::report,
    orders::orders_for_life,
};
use tokio::time::timeout;

use super::HOLD;

/// Between two looks at the guard.
const LOOK: Duration = Duration::from_micros(200);

/// Runs the process by its coordinator's arguments, a round for each name that it reads.
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
    // The session lives, and nothing is held in it from now on.
    let before = client.mutex(format!("{name}-before")).lock().await;
    if let Ok(guard) = before {
        let _ = guard.unlock().await;
    }
    let lock = client.mutex(name);
    tell("idle", "");
    sleep_through(ttl / 2);
    match lock.lock().await {
        Ok(guard) => hold(guard).await,
        Err(error) => tell("refused", error),
    }
    tell("done", "");
}

/// Returns as soon as this process has been stopped for that long, and goes on.
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

/// Looks at the guard for as long as it is valid, at most for [`HOLD`].
async fn hold(guard: LockGuard) {
    let (granted, mut valid) = (uptime(), 0);
    tell("granted", guard.key());
    let looked = std::thread::spawn(move || {
        loop {
            // Read before the guard looks at its own: it was valid then.
            let at = uptime();
            if !guard.is_valid() || at > granted + micros(HOLD) {
                return (guard, valid);
            }
            valid = at;
            std::thread::sleep(LOOK);
        }
    });
    let (guard, valid) = looked.join().expect("it looks");
    tell("valid", valid);
    let _ = timeout(Duration::from_secs(1), guard.unlock()).await;
}

fn tell(word: &str, rest: impl ToString) {
    report(word, rest).expect("the coordinator listens");
}
