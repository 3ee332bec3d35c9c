//! Observations of a dead holder by one process count for another process.

use std::time::Duration;

use distlock::LockGuard;
use distlock_testkit::proxy::{Mode, Proxy};
use redis::cmd;
use tokio::time::{Instant, sleep};

use super::own::Server;
use crate::common::{
    SOON,
    brief::{NAME, is_taken_briefly, taken_after},
    eventually,
    own::TTL,
    redis::{META, SESSIONS},
};

/// A server with a lock whose holder has died.
struct Abandoned {
    server: Server,
    guard: LockGuard,
    _way: Proxy,
}

impl Abandoned {
    async fn new() -> Self {
        let server = Server::start().await;
        let (holder, way) = server.by_proxy(TTL).await;
        let guard = holder.mutex(NAME).lock().await.expect("granted");
        way.set(Mode::Refuse);
        Self { server, guard, _way: way }
    }

    async fn is_taken_briefly(&self) -> bool {
        is_taken_briefly(self.server.builder(), &self.guard).await
    }

    async fn taken_after(&self, start: Instant) -> Duration {
        taken_after(start, || self.server.builder(), &self.guard).await
    }

    /// Collects enough evidence that the holder is dead.
    async fn observed(&self) {
        eventually(SOON, "a process has recorded its observation", async || {
            assert!(!self.is_taken_briefly().await, "the holder may live");
            self.record().await.is_some()
        })
        .await;
        sleep(TTL * 3 / 2).await;
    }

    /// Returns the field of the recorded observation and its value.
    async fn record(&self) -> Option<(String, String)> {
        let fields: Vec<(String, String)> = self.server.ask(cmd("HGETALL").arg(META)).await;
        fields.into_iter().find(|(name, _)| name.starts_with('?'))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_live_briefly_are_granted_a_dead_holders_lock() {
    let abandoned = Abandoned::new().await;
    let took = abandoned.taken_after(Instant::now()).await;
    assert!(took > TTL / 2, "{took:?}");
    assert_eq!(abandoned.record().await, None, "the record of an ended session exists");
}

/// A restarted server may have lost the holder's latest renewals.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn observations_before_a_server_restart_do_not_count() {
    let abandoned = Abandoned::new().await;
    abandoned.observed().await;
    abandoned.server.restart().await;
    let restarted = Instant::now();
    let took = abandoned.taken_after(restarted).await;
    assert!(took > TTL, "{took:?}");
}

/// The session looks expired all the time, as if renewed while the clock was wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holder_that_renews_is_not_silent() {
    let server = Server::start().await;
    let holder = server.client().await;
    let guard = holder.mutex(NAME).lock().await.expect("granted");
    let [session] = server
        .ask::<Vec<String>>(cmd("ZRANGEBYSCORE").arg(SESSIONS).arg("(0").arg("+inf"))
        .await
        .try_into()
        .expect("one session");
    let began = Instant::now();
    while began.elapsed() < TTL * 3 {
        let mut past = cmd("ZADD");
        let _: u8 = server.ask(past.arg(SESSIONS).arg("XX").arg(1).arg(&session)).await;
        assert!(!is_taken_briefly(server.builder(), &guard).await, "the holder lives");
        assert!(guard.is_valid());
    }
    guard.unlock().await.expect("released");
}

/// Observations of another boot or host do not count, nor observations before a clock was set. The
/// clock may be the server's, or that of a machine resumed from a snapshot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn observations_of_other_clocks_do_not_count() {
    const HOUR: u64 = 3_600_000_000;
    // The boot, and the time of the server's clock.
    for place in [2, 4] {
        let abandoned = Abandoned::new().await;
        abandoned.observed().await;
        let (field, seen) = abandoned.record().await.expect("a record");
        let mut words: Vec<_> = seen.split(' ').map(str::to_owned).collect();
        let word = &mut words[place];
        *word = match word.parse::<u64>() {
            Ok(shows) => (shows - HOUR).to_string(),
            Err(_) => word.chars().rev().collect(),
        };
        let _: u8 =
            abandoned.server.ask(cmd("HSET").arg(META).arg(field).arg(words.join(" "))).await;
        let changed = Instant::now();
        assert!(!abandoned.is_taken_briefly().await, "{seen}");
        let took = abandoned.taken_after(changed).await;
        assert!(took > TTL, "{took:?}");
    }
}
