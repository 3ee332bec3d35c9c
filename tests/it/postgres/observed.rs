//! What one process has seen of a dead holder, another one goes by.

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
struct Left {
    server: Server,
    guard: LockGuard,
    _way: Proxy,
}

impl Left {
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

    /// There is evidence enough now, if it counts.
    async fn observed(&self) {
        assert!(!self.is_taken_briefly().await, "its holder may live");
        sleep(TTL * 3 / 2).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_live_briefly_are_granted_a_dead_holders_lock() {
    let left = Left::new().await;
    let took = left.taken_after(Instant::now()).await;
    assert!(took > TTL / 2, "{took:?}");
}

/// Its holder may have renewed its session after what was seen, and the crash has taken that back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_seen_before_a_crash_does_not_count() {
    let left = Left::new().await;
    left.observed().await;
    crash_process(&left.server).await;
    let crashed = Instant::now();
    left.server.serves().await;
    let took = left.taken_after(crashed).await;
    assert!(took > TTL, "{took:?}");
}

/// A restored disk has what was seen before it was saved, and of a session what was saved.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_seen_of_an_earlier_run_of_the_server_does_not_count() {
    let mut left = Left::new().await;
    left.observed().await;
    left.server.restart().await;
    let restarted = Instant::now();
    left.server.serves().await;
    let took = left.taken_after(restarted).await;
    assert!(took > TTL, "{took:?}");
}
