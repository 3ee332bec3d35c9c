//! Clients that contend for locks, and report what they hold.

use std::{sync::Arc, time::Duration};

use distlock::{Client, LockGuard};
use distlock_testkit::{clock::now, event::Event};
use fastrand::Rng;
use tokio::{sync::watch, time::sleep};

/// The locks, fewer than the clients.
pub(crate) const LOCKS: [&str; 2] = ["red", "blue"];

/// The usual TTL.
pub(crate) const TTL: Duration = Duration::from_secs(2);

/// The interval at which a holder verifies its guard.
const INTERVAL: Duration = Duration::from_millis(1);

/// The longest hold.
const LONGEST: Duration = Duration::from_secs(10);

/// The pause after an error.
const PAUSE: Duration = Duration::from_millis(20);

/// Takes a client's events.
pub(crate) type Sink = Arc<dyn Fn(Event) + Send + Sync>;

/// Returns the TTL of a client. A Redis server that has forgotten everything grants nothing for the
/// longest TTL that it has seen since, so there the first client has a longer one than the others.
pub(crate) fn ttl(ttl: Duration, url: &str, number: usize) -> Duration {
    match url.starts_with("redis") {
        true if number == 0 => ttl * 2,
        true => ttl / 2,
        false => ttl,
    }
}

/// Runs a client with this number until the order to end. Its events have the details `LOCK TOKEN`.
/// `grant` is a time at which the guard was valid, and `release` the last known.
pub(crate) async fn run(
    url: String,
    number: usize,
    ttl: Duration,
    seed: u64,
    sink: Sink,
    end: watch::Receiver<bool>,
) {
    let mut random = Rng::with_seed(seed);
    let mut client = None;
    while !*end.borrow() {
        let connected = match &client {
            Some(client) => client,
            None => match connect(&url, number, ttl).await {
                Ok(connected) => client.insert(connected),
                Err(error) => {
                    sink(Event::new("refused", error));
                    sleep(PAUSE).await;
                    continue;
                }
            },
        };
        let lock = LOCKS[random.usize(..LOCKS.len())];
        match connected.mutex(lock).lock_timeout(ttl).await {
            Ok(Some(guard)) => hold(guard, lock, ttl, &mut random, &sink, &end).await,
            Ok(None) => {}
            Err(error) => {
                sink(Event::new("refused", error));
                sleep(PAUSE).await;
            }
        }
    }
    // No power cut follows: an orderly end.
    if let Some(client) = client {
        let _ = tokio::time::timeout(ttl, client.close()).await;
    }
}

async fn connect(url: &str, number: usize, ttl: Duration) -> distlock::Result<Client> {
    let builder = Client::builder(url).session_ttl(ttl).owner(format!("client {number}"));
    builder.connect_timeout(ttl * 2).connect().await
}

async fn hold(
    guard: LockGuard,
    lock: &str,
    ttl: Duration,
    random: &mut Rng,
    sink: &Sink,
    end: &watch::Receiver<bool>,
) {
    // Most holds are short, so that many grants are in flight at a power cut. The others last until
    // the lock is lost, or for up to three TTLs or ten seconds.
    let long = random.u8(..4) == 0;
    let time = match long {
        true => ttl.mul_f64(3.0 * random.f64()).min(LONGEST),
        false => INTERVAL * random.u32(0..20),
    };
    let (what, mut valid) = (format!("{lock} {}", guard.fencing_token()), now());
    if !guard.is_valid() {
        sink(Event::new("late", what));
        return;
    }
    sink(Event { word: "grant".to_owned(), at: valid, rest: what.clone() });
    let until = valid + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    while valid < until && !*end.borrow() {
        sleep(INTERVAL).await;
        let before = now();
        if !guard.is_valid() {
            break;
        }
        valid = before;
    }
    sink(Event { word: "release".to_owned(), at: valid, rest: what });
    // Some are dropped, and released in the background.
    if random.bool()
        && let Err(error) = guard.unlock().await
    {
        sink(Event::new("unreleased", error));
    }
}
