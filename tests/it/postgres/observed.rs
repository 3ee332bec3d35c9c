//! Observations of a dead holder by one process count for another process.

use std::time::Duration;

use distlock::LockGuard;
use distlock_testkit::proxy::{Mode, Proxy};
use tokio::time::{Instant, sleep};

use super::place::{self, Own, Server, crash_process};
use crate::common::{
    brief::{NAME, is_taken_briefly, taken_after},
    close, connect,
    database::{Database, Tables},
    own::TTL,
    postgres::IMAGE,
};

/// A server with a lock whose holder has died.
struct Abandoned {
    server: Server,
    guard: LockGuard,
    _way: Proxy,
}

impl Abandoned {
    async fn new() -> Self {
        let server = place::server().await;
        let way = Proxy::start(server.address, None).await;
        let holder = connect(&IMAGE.around.join(&way.address.to_string()), TTL).await;
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
        assert!(!self.is_taken_briefly().await, "the holder may live");
        sleep(TTL * 3 / 2).await;
    }
}

/// Only the later one shows that a session was not renewed which was renewed between them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn later_of_two_close_observations_is_kept() {
    let database = Own::new().await;
    close([database.client().await]).await;
    for (at, beat) in [(1_000_000, 1), (1_017_000, 2), (6_600_000, 3)] {
        database.ask(&format!("SELECT distlock.observe('boot', {at}, 's', {at}, {beat})")).await;
    }
    let beats = "SELECT beat FROM distlock.observations WHERE boot = 'boot' ORDER BY at";
    assert_eq!(database.ask(beats).await, ["2", "3"]);
    database.end().await;
}

/// However many clients connect, some observation is old enough to find a holder dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_observations_keeps_one_of_each_age() {
    let database = Own::new().await;
    close([database.client().await]).await;
    let stream = "SELECT distlock.observe('boot', at, 's', at, at) \
                  FROM generate_series(0::bigint, 9000000, 30000) AS at";
    database.ask(stream).await;
    let old = "SELECT count(*) > 0 FROM distlock.observations WHERE boot = 'boot' \
               AND 9000000 - at BETWEEN 3300000 AND 3300000 * 1.15";
    assert_eq!(database.ask(old).await, ["t"]);
    let few = "SELECT count(*) < 100 FROM distlock.observations WHERE boot = 'boot'";
    assert_eq!(database.ask(few).await, ["t"]);
    database.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_live_briefly_are_granted_a_dead_holders_lock() {
    let abandoned = Abandoned::new().await;
    let took = abandoned.taken_after(Instant::now()).await;
    assert!(took > TTL / 2, "{took:?}");
}

/// The holder may have renewed its session after the observation, and the crash has undone that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn observations_before_a_crash_do_not_count() {
    let abandoned = Abandoned::new().await;
    abandoned.observed().await;
    crash_process(&abandoned.server).await;
    let crashed = Instant::now();
    abandoned.server.serves().await;
    let took = abandoned.taken_after(crashed).await;
    assert!(took > TTL, "{took:?}");
}

/// A restored disk may hold an observation that precedes the holder's latest renewals.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn observations_before_a_server_restart_do_not_count() {
    let mut abandoned = Abandoned::new().await;
    abandoned.observed().await;
    abandoned.server.restart().await;
    let restarted = Instant::now();
    abandoned.server.serves().await;
    let took = abandoned.taken_after(restarted).await;
    assert!(took > TTL, "{took:?}");
}
