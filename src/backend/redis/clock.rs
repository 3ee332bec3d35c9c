//! The clock of the server that all connections of a client go to.
//!
//! A connection that is made again says nothing of it: others may have read the clock meanwhile, or
//! the last reading is young. Where connections are idle for longer than something on the way
//! allows, they are made again all the time, and a client that forgot the clock each time would
//! never believe it, and never remove a dead holder.

use std::time::Duration;

use crate::{
    backend::sql::{
        outcome::Outcome,
        server_clock::{ClockTrust, ServerClock},
    },
    runtime::{clock, mutex::Mutex},
};

#[derive(Debug, Default)]
pub(super) struct WatchedClock {
    clock: ServerClock,
    watched: Mutex<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    /// Which server's clock it is.
    server: String,
    /// When it was read last.
    read: Duration,
    /// How long it may be unread: more than a healthy session leaves between two keepalives.
    within: Duration,
}

impl WatchedClock {
    /// The longest time without a reading that still counts as watching.
    pub(super) fn watch_within(&self, time: Duration) {
        self.watched.lock().within = time;
    }

    /// A connection was made to this server.
    pub(super) fn meet(&self, server: &str) {
        let mut watched = self.watched.lock();
        if !watched.goes_on(server, clock::now()) {
            server.clone_into(&mut watched.server);
            self.clock.forget();
        }
    }

    /// A request that was sent then has read it. What another server shows says nothing of it.
    pub(super) fn read(&self, server: &str, outcomes: &[Outcome], sent: Duration) {
        let mut watched = self.watched.lock();
        if watched.server == server {
            self.clock.read(outcomes, sent);
            watched.read = clock::now();
        }
    }

    /// What a request to this server may conclude.
    pub(super) fn clock_trust(&self, server: &str, now: Duration) -> Option<ClockTrust> {
        let is_same = self.watched.lock().server == server;
        self.clock.clock_trust(now).filter(|_| is_same)
    }

    pub(super) fn acted_on(&self, server: &str, clock_trust: &ClockTrust) {
        if self.watched.lock().server == server {
            self.clock.acted_on(clock_trust);
        }
    }
}

impl Watched {
    /// Whether it is the clock that was read until now.
    fn goes_on(&self, server: &str, now: Duration) -> bool {
        self.server == server && now.saturating_sub(self.read) <= self.within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_connection_forgets_only_an_unwatched_clock() {
        let second = Duration::from_secs;
        let watched = Watched { server: "a/b".into(), read: second(10), within: second(6) };
        assert!(watched.goes_on("a/b", second(16)));
        assert!(!watched.goes_on("a/b", second(17)), "nothing has read it since");
        assert!(!watched.goes_on("c/b", second(11)), "another process");
        assert!(!Watched::default().goes_on("a/b", second(1)));
    }
}
