//! The clock of the server that all connections of a client share.
//!
//! A reconnect alone does not discard what is known of the clock: another connection may have read
//! it in between, or the last reading may be recent. Some networks close connections after a short
//! idle time, so that clients reconnect often. A client that forgot the clock each time would never
//! trust it, and would never remove a dead holder.

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
    /// The server that the clock belongs to.
    server: String,
    /// The time of the last reading.
    read: Duration,
    /// The longest gap between readings. It is longer than the gap between two keepalives of a
    /// healthy session.
    within: Duration,
}

impl WatchedClock {
    /// Sets the longest gap between readings that still counts as watching.
    pub(super) fn watch_within(&self, time: Duration) {
        self.watched.lock().within = time;
    }

    /// Notes that a connection was made to this server.
    pub(super) fn meet(&self, server: &str) {
        let mut watched = self.watched.lock();
        if !watched.goes_on(server, clock::now()) {
            server.clone_into(&mut watched.server);
            self.clock.forget();
        }
    }

    /// Notes a reading by a request that was sent at this time. Readings of another server are
    /// ignored.
    pub(super) fn read(&self, server: &str, outcomes: &[Outcome], sent: Duration) {
        let mut watched = self.watched.lock();
        if watched.server == server {
            self.clock.read(outcomes, sent);
            watched.read = clock::now();
        }
    }

    /// Returns what a request to this server may conclude from its clock.
    pub(super) fn clock_trust(&self, server: &str, now: Duration) -> Option<ClockTrust> {
        let watched = self.watched.lock();
        if watched.server != server {
            return None;
        }
        self.clock.clock_trust(now)
    }

    pub(super) fn acted_on(&self, server: &str, clock_trust: &ClockTrust) {
        let watched = self.watched.lock();
        if watched.server == server {
            self.clock.acted_on(clock_trust);
        }
    }
}

impl Watched {
    /// Returns `true` if this clock was watched without a gap until now.
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
