//! Every time of a session that follows from its TTL, and why it is what it is.

use std::time::Duration;

use crate::{backend::error::StoreError, runtime::backoff};

/// The times of a session with this TTL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) ttl: Duration,
    /// A server passes renewals on: see `Store::relays_renewals`.
    pub(crate) relayed: bool,
}

impl Timing {
    /// From one renewal to the next: two may fail before the third would come too late.
    pub(crate) fn renewal(self) -> Duration {
        self.ttl / 3
    }

    /// The same after a renewal that the store confirmed for less than the TTL.
    pub(crate) fn renewal_after(self, granted: Duration) -> Duration {
        (granted / 3).clamp(self.renewal() / 8, self.renewal())
    }

    /// How long a renewal goes unanswered before another server is asked, which may be quicker.
    pub(crate) fn second_server(self) -> Duration {
        self.renewal() / 2
    }

    /// The pause after a renewal that failed so, and so many before it in a row: at least eight
    /// tries fit into the time for one. What is refused is seldom granted a moment later, and a
    /// password that is looked at costs etcd 60 ms of its processor (bcrypt).
    pub(crate) fn pause_after(self, error: &StoreError, failures: u32) -> Duration {
        match error {
            StoreError::Denied(_) => self.renewal() / 2,
            _ => backoff(failures).min(self.renewal() / 8),
        }
    }

    /// How long the keeper sleeps at most. Timers stand still while the machine is suspended, so a
    /// longer sleep would overlook that time has passed. Where a silence matters, it has to be told
    /// from a pause between two looks: see [`longest_pause`](Self::longest_pause).
    pub(crate) fn longest_sleep(self) -> Duration {
        let looks = if self.relayed { 16 } else { 8 };
        (self.ttl / looks).clamp(Duration::from_millis(20), Duration::from_secs(1))
    }

    /// The part of `granted` that holds even if this machine's clock runs a tenth slower than the
    /// server's.
    pub(crate) fn certain(granted: Duration) -> Duration {
        granted - granted / 10
    }

    /// What is left of a held lock's certain time just before the next renewal, while all is well.
    /// A renewal that a server passes on counts for two thirds of the TTL: see `renewed_for` in
    /// `backend/zookeeper/renewal.rs`.
    pub(crate) fn reserve(self) -> Duration {
        let granted = if self.relayed { self.ttl * 2 / 3 } else { self.ttl };
        Self::certain(granted) - self.renewal()
    }

    /// How long to wait for a reply, if the builder does not say.
    pub(crate) fn request_timeout(self) -> Duration {
        (self.ttl / 2).clamp(Duration::from_secs(1), Duration::from_secs(3))
    }

    /// How long to trust in watches alone, if the builder does not say.
    pub(crate) fn recheck_interval(self) -> Duration {
        self.ttl.max(Duration::from_secs(20))
    }

    /// What a proof of an idle session has to leave at least, for one that is about to join not to
    /// be better off with a new session.
    pub(crate) fn worth_keeping(self) -> Duration {
        self.ttl / 4
    }

    /// What a proof would leave to that one if the session had not been silent.
    pub(crate) fn usual(self) -> Duration {
        self.ttl / 2
    }

    /// How long the store is asked to end a session: after one TTL it has ended by itself, by the
    /// server's clock.
    pub(crate) fn closing(self) -> Duration {
        self.ttl * 2
    }

    /// How long it takes at most until a session without renewals is known to be dead, on a store
    /// whose clients have to watch its clock. That is 1.1 TTL by the store's clock, plus the drift
    /// between two clocks and the time of the last query.
    pub(crate) fn known_for_dead(self) -> Duration {
        self.ttl * 23 / 20
    }

    /// The pause between two attempts of a try that waits for that.
    pub(crate) fn next_try(self) -> Duration {
        self.ttl / 10
    }

    /// A process that runs is seen at work at least so often: a silence is longer. Its requests may
    /// be further apart where answers are slow.
    pub(crate) fn longest_pause(self) -> Duration {
        self.ttl / 8
    }

    /// How long after the end of a silence what is sent shows nothing new of the session: a quarter
    /// of the TTL for the server's next report, an eighth for the client's next request.
    pub(crate) fn stutter(self) -> Duration {
        self.ttl * 3 / 8
    }

    /// How long the store keeps a session after the last sign of life before a silence: the last
    /// report is up to an eighth of the TTL older than that.
    pub(crate) fn kept(self) -> Duration {
        self.ttl * 7 / 8
    }

    /// The same less a tenth of the TTL, for clocks that run at different speeds.
    pub(crate) fn certainly_kept(self) -> Duration {
        self.kept() - self.ttl / 10
    }

    /// A silence that ended so long ago says nothing of any proof that still counts.
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
        let times: [fn(Timing) -> Duration; 11] = [
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
        ];
        let milliseconds = times.map(|time| time(timing(2400, false)).as_millis());
        assert_eq!(milliseconds, [800, 400, 600, 1200, 4800, 300, 900, 2100, 1860, 2760, 240]);
        let pause = |error: &StoreError, failures| {
            timing(2400, false).pause_after(error, failures).as_millis()
        };
        let silent = StoreError::Unavailable("no answer".into());
        assert!((10..=20).contains(&pause(&silent, 0)));
        assert!((40..=80).contains(&pause(&silent, 2)));
        assert_eq!(pause(&silent, 9), 100);
        assert_eq!(pause(&StoreError::Denied("who?".into()), 0), 400);
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
