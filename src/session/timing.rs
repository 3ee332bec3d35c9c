//! All times of a session that follow from its TTL, and the reason for each.

use std::time::Duration;

use crate::{backend::error::StoreError, runtime::backoff};

/// The timing of a session with this TTL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) ttl: Duration,
    /// Servers forward renewals: see `Facts::relays_renewals`.
    pub(crate) relayed: bool,
}

impl Timing {
    /// Returns the interval between renewals.
    ///
    /// If one renewal fails, the next one is still in time.
    pub(crate) fn renewal(self) -> Duration {
        self.ttl / 3
    }

    /// Returns the interval after a renewal: less than usual if the renewal counts for less than
    /// the TTL. On ZooKeeper, where it counts for at most two thirds, the interval is at most 2/9
    /// of the TTL. With a third, a holder lost its lock in `clusters::restarts`.
    pub(crate) fn renewal_after(self, granted: Duration) -> Duration {
        (granted / 3).clamp(self.renewal() / 8, self.renewal())
    }

    /// Returns how long a renewal waits before another server is queried.
    ///
    /// The other server may be faster.
    pub(crate) fn second_server(self) -> Duration {
        self.renewal() / 2
    }

    /// Returns the pause after a failed renewal that follows `failures` others.
    ///
    /// At least eight tries fit into one renewal interval. A denied renewal is unlikely to succeed
    /// soon, and each password check costs etcd 60 ms of processor time (bcrypt).
    pub(crate) fn pause_after(self, error: &StoreError, failures: u32) -> Duration {
        match error {
            StoreError::Denied(_) | StoreError::PartlyDenied(_) => self.renewal() / 2,
            _ => backoff(failures).min(self.renewal() / 8),
        }
    }

    /// Returns the keeper's longest sleep.
    ///
    /// Timers stop during suspend, so a longer sleep would miss that time has passed. Where stalls
    /// matter, the sleep must be shorter than a stall: see [`longest_pause`](Self::longest_pause).
    pub(crate) fn longest_sleep(self) -> Duration {
        let looks = if self.relayed { 16 } else { 8 };
        (self.ttl / looks).clamp(Duration::from_millis(20), Duration::from_secs(1))
    }

    /// Returns the certain part of `granted`.
    ///
    /// It holds even if the local clock runs a tenth slower than the server's.
    pub(crate) fn certain(granted: Duration) -> Duration {
        granted - granted / 10
    }

    /// Returns a time that is certainly left just before the next renewal, without failures.
    ///
    /// A forwarded renewal counts for two thirds of the TTL: see `renewed_for` in
    /// `backend/zookeeper/renewal.rs`.
    pub(crate) fn reserve(self) -> Duration {
        let granted = if self.relayed { self.ttl * 2 / 3 } else { self.ttl };
        Self::certain(granted) - self.renewal()
    }

    /// Returns the default request timeout.
    pub(crate) fn request_timeout(self) -> Duration {
        (self.ttl / 2).clamp(Duration::from_secs(1), Duration::from_secs(3))
    }

    /// Returns the default recheck interval: how long to rely on watches alone.
    pub(crate) fn recheck_interval(self) -> Duration {
        self.ttl.max(Duration::from_secs(20))
    }

    /// Returns how long a renewal of an idle session must count to keep the session.
    ///
    /// Below that, a client that wants to join should open a new session.
    pub(crate) fn worth_keeping(self) -> Duration {
        self.ttl / 4
    }

    /// Returns the least time for which such a renewal counts without a stall.
    pub(crate) fn usual(self) -> Duration {
        self.ttl / 2
    }

    /// Returns how long the client tries to end a session in the store.
    ///
    /// After one TTL, the session has expired anyway, by the server's clock.
    pub(crate) fn closing(self) -> Duration {
        self.ttl * 2
    }

    /// Returns how long it takes at most to detect that a session has expired.
    ///
    /// This applies to stores whose clients watch the store's clock. It is 1.1 TTL by that clock,
    /// plus the drift between two clocks and the time of the last query.
    pub(crate) fn known_for_dead(self) -> Duration {
        self.ttl * 23 / 20
    }

    /// Returns the pause between two attempts of a `try` that waits for that.
    pub(crate) fn next_try(self) -> Duration {
        self.ttl / 10
    }

    /// Returns the longest time between two signs that a running process is at work.
    ///
    /// A longer gap is a stall. The requests of a running process may be further apart if replies
    /// are slow.
    pub(crate) fn longest_pause(self) -> Duration {
        self.ttl / 8
    }

    /// Returns how long after a stall a request proves nothing new about the session.
    ///
    /// This is a quarter of the TTL for the server's next report, and an eighth for the client's
    /// next request.
    pub(crate) fn stutter(self) -> Duration {
        self.ttl * 3 / 8
    }

    /// Returns how long the store keeps a stalled session after its last activity.
    ///
    /// The last report may be an eighth of the TTL older than that activity.
    pub(crate) fn kept(self) -> Duration {
        self.ttl * 7 / 8
    }

    /// Returns the same time less a tenth of the TTL, for clocks of different speeds.
    pub(crate) fn certainly_kept(self) -> Duration {
        self.kept() - self.ttl / 10
    }

    /// Returns the time in which a renewal is usually confirmed.
    pub(crate) fn confirmation(self) -> Duration {
        self.ttl / 16
    }

    /// Returns the age at which a stall no longer affects any valid renewal.
    pub(crate) fn forgotten(self) -> Duration {
        self.ttl * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_from_the_ttl() {
        let timing = |ttl, relayed| Timing { ttl: Duration::from_millis(ttl), relayed };
        let times: [fn(Timing) -> Duration; 12] = [
            Timing::renewal,
            Timing::second_server,
            Timing::worth_keeping,
            Timing::usual,
            Timing::closing,
            Timing::longest_pause,
            Timing::stutter,
            Timing::kept,
            Timing::certainly_kept,
            Timing::known_for_dead,
            Timing::next_try,
            Timing::confirmation,
        ];
        let milliseconds = times.map(|time| time(timing(2400, false)).as_millis());
        let expected = [800, 400, 600, 1200, 4800, 300, 900, 2100, 1860, 2760, 240, 150];
        assert_eq!(milliseconds, expected);
        let pause = |error: &StoreError, failures| {
            timing(2400, false).pause_after(error, failures).as_millis()
        };
        let silent = StoreError::Unavailable("no answer".into());
        assert!((10..=20).contains(&pause(&silent, 0)));
        assert!((40..=80).contains(&pause(&silent, 2)));
        assert_eq!(pause(&silent, 9), 100);
        assert_eq!(pause(&StoreError::Denied("who?".into()), 0), 400);
        assert_eq!(pause(&StoreError::PartlyDenied("no".into()), 0), 400);
        assert_eq!(timing(2400, false).reserve().as_millis(), 1360);
        assert_eq!(timing(2400, true).reserve().as_millis(), 640);
        assert_eq!(timing(2400, false).forgotten().as_millis(), 4800);
        assert_eq!(Timing::certain(Duration::from_millis(2400)).as_millis(), 2160);
        for (granted, pause) in [(2400, 800), (9999, 800), (1200, 400), (0, 100)] {
            let granted = Duration::from_millis(granted);
            assert_eq!(timing(2400, false).renewal_after(granted).as_millis(), pause);
        }
        for (ttl, relayed, sleep) in
            [(2400, false, 300), (2400, true, 150), (80, false, 20), (160_000, true, 1000)]
        {
            assert_eq!(timing(ttl, relayed).longest_sleep().as_millis(), sleep, "{ttl}");
        }
    }
}
