//! How far the server's clock may be believed.
//!
//! Sessions end by it, and it is a clock on the wall, which an operator or a daemon can set. So a
//! client that puts a session away goes by its own clock as well: it does so only while the two
//! have gone alike for longer than that session was to live, and up to that very request. A clock
//! that jumps frees nothing, then: who has seen it waits for a TTL, and so does who comes later.
//! Those whose sessions seem over meanwhile renew them.
//!
//! That a clock goes right whenever it is read does not show that it has gone right in between: who
//! is cut off does not see it jump and jump back. A session that was renewed meanwhile seems over,
//! and is not: see `clock_readings.rs`.

use std::time::Duration;

use super::{
    clock_readings::{ClockReadings, Mark},
    outcome::Outcome,
};
use crate::runtime::{clock, mutex::Mutex};

/// By what part of a time that goes by two clocks may differ: far more than any two that nobody
/// sets.
const APART: i64 = 50;

/// Microseconds, of the server's clock since 1970, or between that and ours.
type Micros = i64;

#[derive(Debug, Default)]
pub(crate) struct ServerClock(Mutex<Option<Seen>>, Mutex<ClockReadings>);

#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Since then it has gone as ours does, by what it shows.
    since: Micros,
    /// When it was last read, by our clock.
    read: Micros,
    /// What it shows less what ours shows, at least and at most: a request took some time.
    apart: [Micros; 2],
    /// Sessions that are to live for longer than they may have been cut short since.
    clipped: bool,
}

/// What a request may conclude from the server's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClockTrust {
    /// It has not been set since it showed this.
    pub(crate) since: Micros,
    /// What it shows as the request is sent, at least.
    pub(crate) shows: Micros,
    /// It may have been set back before: sessions may seem to live for ever.
    pub(crate) clips: bool,
    /// What tells rows that were written while it was wrong.
    pub(crate) marks: Vec<Mark>,
}

impl ServerClock {
    /// The first of these outcomes tells what the clock showed to a request that was sent then, and
    /// how far the beats were.
    pub(crate) fn read(&self, outcomes: &[Outcome], sent: Duration) {
        let (reply, answered) = (outcomes.first().and_then(Outcome::first), clock::now());
        let Some((row, shows)) = reply.and_then(|row| Some((row, row.number(0)?))) else { return };
        let goes_on = self.saw(shows, sent, answered);
        let mut readings = self.1.lock();
        if !goes_on {
            readings.forget();
        }
        if let Some(beat) = row.number(1) {
            readings.saw(beat, shows, micros(answered));
        }
    }

    /// It has not been watched until now.
    pub(crate) fn forget(&self) {
        *self.0.lock() = None;
        self.1.lock().forget();
    }

    /// The clock was read by a request that was sent and answered then, by our clock. Tells whether
    /// it has gone as ours does.
    fn saw(&self, shows: Micros, sent: Duration, answered: Duration) -> bool {
        let (sent, answered) = (micros(sent), micros(answered));
        let apart = [shows - answered, shows - sent];
        let mut seen = self.0.lock();
        let same = seen.and_then(|seen| {
            let before = seen.apart_at(answered);
            let both = [before[0].max(apart[0]), before[1].min(apart[1])];
            (both[0] <= both[1]).then_some(Seen {
                read: seen.read.max(answered),
                apart: both,
                ..seen
            })
        });
        let anew = Seen { since: shows, read: answered, apart, clipped: false };
        *seen = Some(same.unwrap_or(anew));
        same.is_some()
    }

    /// What a request may conclude that is sent now. `None`: nothing, the clock was never read.
    pub(crate) fn clock_trust(&self, now: Duration) -> Option<ClockTrust> {
        let (seen, now) = ((*self.0.lock())?, micros(now));
        let shows = now + seen.apart_at(now)[0];
        let marks = self.1.lock().marks(now);
        Some(ClockTrust { since: seen.since, shows, clips: !seen.clipped, marks })
    }

    /// A request has been answered that had this to go by.
    pub(crate) fn acted_on(&self, clock_trust: &ClockTrust) {
        if let Some(seen) = &mut *self.0.lock() {
            seen.clipped |= seen.since == clock_trust.since && clock_trust.clips;
        }
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
    /// As the scripts of Redis read it: since when, what it shows, whether sessions may seem to
    /// live for ever, the boot of this host, our own clock as the request is sent, and the marks.
    pub(crate) fn words(&self, boot: Option<&str>, sent: Duration) -> String {
        let Self { since, shows, clips, .. } = self;
        let (clips, boot, sent) = (u8::from(*clips), boot.unwrap_or("-"), micros(sent));
        let mut words = format!("{since} {shows} {clips} {boot} {sent}");
        for mark in &self.marks {
            words += &mark.word();
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

    /// Shows what the server's clock is read to be, in milliseconds, in an exchange that takes 10
    /// from `sent` on.
    fn saw(clock: &ServerClock, shows: i64, sent: u64) {
        let at = |time| Duration::from_millis(time);
        clock.saw(shows * 1000, at(sent), at(sent + 10));
    }

    /// Since when it goes as ours does, and what it shows now, in milliseconds.
    fn clock_trust(clock: &ServerClock, now: u64) -> (i64, i64) {
        let clock_trust = clock.clock_trust(Duration::from_millis(now)).unwrap();
        (clock_trust.since / 1000, clock_trust.shows / 1000)
    }

    #[test]
    fn a_clock_that_goes_as_ours_is_believed() {
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
    fn a_jump_begins_anew() {
        for jump in [3_600_000, 100, -100, -3_600_000] {
            let clock = ServerClock::default();
            saw(&clock, 5000, 1000);
            saw(&clock, 6000, 2000);
            saw(&clock, 7000 + jump, 3000);
            assert_eq!(clock_trust(&clock, 3010), (7000 + jump, 7000 + jump), "{jump}");
        }
    }

    #[test]
    fn a_slow_answer_proves_little() {
        let clock = ServerClock::default();
        clock.saw(5_000_000, Duration::from_secs(1), Duration::from_secs(3));
        assert_eq!(clock_trust(&clock, 3000), (5000, 5000));
        // Somewhere between the two.
        saw(&clock, 6500, 3000);
        assert_eq!(clock_trust(&clock, 3010), (5000, 6500));
    }

    #[test]
    fn an_act_counts_for_what_it_went_by() {
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
