//! Decides how far a client may trust the server's clock.
//!
//! Sessions expire by that clock. It is a wall clock, which an operator or a daemon can set, so a
//! client that removes a session also uses its own clock. It removes the session only if the two
//! clocks have run alike for longer than the session's TTL, up to the request itself. A clock that
//! jumps therefore frees nothing. A client that has seen the jump waits for a TTL, as does a client
//! that connects later. Live sessions that seem expired are renewed during that time. On PostgreSQL
//! and Redis, observations of earlier processes on the host may replace the client's own: see
//! `postgres/observed.rs`.
//!
//! A clock that is right at each reading may still have been wrong in between. A client without a
//! connection does not see it jump and jump back. A session that was renewed in between seems
//! expired, and is not: see `clock_readings.rs`.

use std::time::Duration;

use super::{
    clock_readings::{ClockReadings, Mark},
    outcome::Outcome,
};
use crate::runtime::{clock, mutex::Mutex};

/// Two clocks may differ by one part in this many of the elapsed time, which is far more than
/// unadjusted clocks do.
const APART: i64 = 50;

/// Microseconds of the server's clock since 1970, or the difference to the client's clock.
type Micros = i64;

#[derive(Debug, Default)]
pub(crate) struct ServerClock(Mutex<State>);

/// Both parts change together: the readings of one clock prove nothing about another one.
#[derive(Debug, Default)]
struct State {
    seen: Option<Seen>,
    readings: ClockReadings,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The server's time since which the two clocks have run alike.
    since: Micros,
    /// The client's time at the last reading.
    read: Micros,
    /// The lowest and highest difference between the clocks, because a request takes some time.
    apart: [Micros; 2],
    /// Sessions whose expiry was too far ahead may have been cut short since.
    clipped: bool,
}

/// What a request may conclude from the server's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClockTrust {
    /// The server's time since which its clock was not set.
    pub(crate) since: Micros,
    /// The lowest time that the server may show as the request is sent.
    pub(crate) shows: Micros,
    /// The clock may have been set back before, so that sessions seem to live for ever.
    pub(crate) clips: bool,
    /// The readings that identify rows written while the clock was wrong.
    pub(crate) marks: Vec<Mark>,
}

impl ServerClock {
    /// Reads the clock and the beat from the first of these outcomes of a request sent at `sent`.
    pub(crate) fn read(&self, outcomes: &[Outcome], sent: Duration) {
        let (reply, answered) = (outcomes.first().and_then(Outcome::first), clock::now());
        let Some((row, shows)) = reply.and_then(|row| Some((row, row.number(0)?))) else { return };
        let mut state = self.0.lock();
        if !state.saw(shows, sent, answered) {
            state.readings.forget();
        }
        if let Some(beat) = row.number(1) {
            state.readings.saw(beat, shows, micros(answered));
        }
    }

    /// Discards the readings, so that the clock is not trusted yet.
    pub(crate) fn forget(&self) {
        *self.0.lock() = State::default();
    }

    /// Returns what a request may conclude that is sent now. `None`: the clock was never read.
    pub(crate) fn clock_trust(&self, now: Duration) -> Option<ClockTrust> {
        let (state, now) = (self.0.lock(), micros(now));
        let seen = state.seen?;
        let shows = now + seen.apart_at(now)[0];
        let marks = state.readings.marks(now);
        Some(ClockTrust { since: seen.since, shows, clips: !seen.clipped, marks })
    }

    /// Records that a request with this evidence was answered.
    pub(crate) fn acted_on(&self, clock_trust: &ClockTrust) {
        if let Some(seen) = &mut self.0.lock().seen {
            seen.clipped |= seen.since == clock_trust.since && clock_trust.clips;
        }
    }
}

impl State {
    /// Records a reading of a request, by the client's times of sending and reply. Returns `true`
    /// if the clocks still run alike.
    fn saw(&mut self, shows: Micros, sent: Duration, answered: Duration) -> bool {
        let (sent, answered) = (micros(sent), micros(answered));
        let apart = [shows - answered, shows - sent];
        let same = self.seen.and_then(|seen| {
            let before = seen.apart_at(answered);
            let both = [before[0].max(apart[0]), before[1].min(apart[1])];
            (both[0] <= both[1]).then_some(Seen {
                read: seen.read.max(answered),
                apart: both,
                ..seen
            })
        });
        let anew = Seen { since: shows, read: answered, apart, clipped: false };
        self.seen = Some(same.unwrap_or(anew));
        same.is_some()
    }
}

impl Seen {
    fn apart_at(self, now: Micros) -> [Micros; 2] {
        let doubt = (now - self.read).max(0) / APART;
        [self.apart[0] - doubt, self.apart[1] + doubt]
    }
}

#[cfg(feature = "redis")]
impl ClockTrust {
    /// Formats the evidence for the Redis scripts, with the boot of this host and the client's time
    /// at sending.
    pub(crate) fn words(&self, boot: Option<&str>, sent: Duration) -> String {
        let Self { since, shows, clips, .. } = self;
        let (clips, boot, sent) = (u8::from(*clips), boot.unwrap_or("-"), micros(sent));
        let mut words = format!("{since} {shows} {clips} {boot} {sent}");
        for mark in &self.marks {
            words += &mark.encoded();
        }
        words
    }
}

fn micros(time: Duration) -> Micros {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records a reading of the server's clock in milliseconds, in an exchange that takes 10 ms
    /// from `sent` on.
    fn saw(clock: &ServerClock, shows: i64, sent: u64) {
        let at = |time| Duration::from_millis(time);
        clock.0.lock().saw(shows * 1000, at(sent), at(sent + 10));
    }

    /// Returns since when the clocks have run alike, and the server's time now, in milliseconds.
    fn clock_trust(clock: &ServerClock, now: u64) -> (i64, i64) {
        let clock_trust = clock.clock_trust(Duration::from_millis(now)).unwrap();
        (clock_trust.since / 1000, clock_trust.shows / 1000)
    }

    #[test]
    fn server_clock_with_local_rate_is_trusted() {
        let clock = ServerClock::default();
        assert_eq!(clock.clock_trust(Duration::ZERO), None);
        saw(&clock, 5000, 1000);
        assert_eq!(clock_trust(&clock, 1010), (5000, 5000));
        assert_eq!(clock_trust(&clock, 2010), (5000, 5980), "a second later, by some 20 ms less");
        for second in 1..100_u64 {
            saw(&clock, 5005 + i64::try_from(second).unwrap() * 1000, 1000 + second * 1000);
        }
        assert_eq!(clock_trust(&clock, 100_010).0, 5000);
    }

    #[test]
    fn clock_jump_restarts_trust() {
        for jump in [3_600_000, 100, -100, -3_600_000] {
            let clock = ServerClock::default();
            saw(&clock, 5000, 1000);
            saw(&clock, 6000, 2000);
            saw(&clock, 7000 + jump, 3000);
            assert_eq!(clock_trust(&clock, 3010), (7000 + jump, 7000 + jump), "{jump}");
        }
    }

    #[test]
    fn slow_reply_gives_little_clock_trust() {
        let clock = ServerClock::default();
        clock.0.lock().saw(5_000_000, Duration::from_secs(1), Duration::from_secs(3));
        assert_eq!(clock_trust(&clock, 3000), (5000, 5000));
        // Somewhere between the two.
        saw(&clock, 6500, 3000);
        assert_eq!(clock_trust(&clock, 3010), (5000, 6500));
    }

    #[test]
    fn action_confirms_the_clock_trust_it_used() {
        let clock = ServerClock::default();
        saw(&clock, 5000, 1000);
        let first = clock.clock_trust(Duration::from_secs(2)).unwrap();
        assert!(first.clips);
        saw(&clock, 9000, 2000);
        clock.acted_on(&first);
        let second = clock.clock_trust(Duration::from_secs(3)).unwrap();
        assert!(second.clips, "the clock was set in between");
        clock.acted_on(&second);
        assert!(!clock.clock_trust(Duration::from_secs(3)).unwrap().clips);
    }
}
