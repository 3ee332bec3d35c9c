//! What one process has seen of a dead holder, another one goes by.

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
struct Left {
    server: Server,
    guard: LockGuard,
    _way: Proxy,
}

impl Left {
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

    /// There is evidence enough now, if it counts.
    async fn observed(&self) {
        eventually(SOON, "a process has recorded what it has seen", async || {
            assert!(!self.is_taken_briefly().await, "its holder may live");
            self.record().await.is_some()
        })
        .await;
        sleep(TTL * 3 / 2).await;
    }

    /// The field of what was seen, and its value.
    async fn record(&self) -> Option<(String, String)> {
        let fields: Vec<(String, String)> = self.server.ask(cmd("HGETALL").arg(META)).await;
        fields.into_iter().find(|(name, _)| name.starts_with('?'))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_live_briefly_are_granted_a_dead_holders_lock() {
    let left = Left::new().await;
    let took = left.taken_after(Instant::now()).await;
    assert!(took > TTL / 2, "{took:?}");
    assert_eq!(left.record().await, None, "of a session that has ended");
}

/// A server that is started again may have lost what the holder has renewed since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_seen_of_an_earlier_run_of_the_server_does_not_count() {
    let left = Left::new().await;
    left.observed().await;
    left.server.restart().await;
    let restarted = Instant::now();
    let took = left.taken_after(restarted).await;
    assert!(took > TTL, "{took:?}");
}

/// It seems over all the time, as if it was renewed while the clock was wrong.
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
        assert!(!is_taken_briefly(server.builder(), &guard).await, "its holder lives");
        assert!(guard.is_valid());
    }
    guard.unlock().await.expect("released");
}

/// Of another boot, or of another host; or of a clock that was set since: the server's, or that of
/// a machine that was resumed from a snapshot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_seen_by_other_clocks_does_not_count() {
    const HOUR: u64 = 3_600_000_000;
    // The boot, and what the server's clock showed.
    for place in [2, 4] {
        let left = Left::new().await;
        left.observed().await;
        let (field, seen) = left.record().await.expect("a record");
        let mut words: Vec<_> = seen.split(' ').map(str::to_owned).collect();
        let word = &mut words[place];
        *word = match word.parse::<u64>() {
            Ok(shows) => (shows - HOUR).to_string(),
            Err(_) => word.chars().rev().collect(),
        };
        let _: u8 = left.server.ask(cmd("HSET").arg(META).arg(field).arg(words.join(" "))).await;
        let changed = Instant::now();
        assert!(!left.is_taken_briefly().await, "{seen}");
        let took = left.taken_after(changed).await;
        assert!(took > TTL, "{took:?}");
    }
}
