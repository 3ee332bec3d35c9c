//! Observations of a dead holder by one process count for another process.

use std::time::Duration;

use distlock::LockGuard;
use distlock_testkit::proxy::{Mode, Proxy};
use tokio::time::{Instant, sleep};

use crate::{
    common::{
        brief::{NAME, is_taken_briefly, taken_after},
        connect,
        own::{Server, TTL},
        postgres::{IMAGE, Postgres},
    },
    postgres::crash::crash_process,
};

/// A server with a lock whose holder has died.
struct Abandoned {
    server: Server,
    guard: LockGuard,
    _way: Proxy,
}

impl Abandoned {
    async fn new() -> Self {
        let server = Server::beside::<Postgres>(IMAGE, &[], &[]).await;
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
