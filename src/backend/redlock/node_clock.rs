//! The clock of a node, by which its keys expire, as this client measures it.
//!
//! A key with a TTL lives until that TTL has passed on the node's clock. Clock rates may differ by
//! a tenth; a clock that is set is not tolerated. Each reply therefore measures the offset of the
//! node's clock from the client's monotonic clock. That offset must stay the same.

use std::{collections::VecDeque, time::Duration};

/// The number of measures that are kept for one TTL.
const KEPT: u32 = 16;

/// Microseconds.
type Micros = i128;

/// The clock of one node.
#[derive(Debug, Default)]
pub(super) struct NodeClock {
    measures: VecDeque<Measure>,
    /// The time of the first measure in an unbroken series.
    since: Duration,
    /// The last time when the clock was found to have been set.
    set: Option<Duration>,
}

/// How far the node's clock is ahead of ours. The clock was read between a request and its reply.
#[derive(Clone, Copy, Debug)]
struct Measure {
    at: Duration,
    least: Micros,
    most: Micros,
}

impl Measure {
    /// Returns the least distance of two measures that fits the limits of both.
    fn gap(&self, other: &Self) -> Micros {
        (self.least - other.most).max(other.least - self.most).max(0)
    }
}

fn micros(time: Duration) -> Micros {
    i128::try_from(time.as_micros()).unwrap_or(Micros::MAX)
}

impl NodeClock {
    /// Adds a reading of the node's clock, in time since the Unix epoch. It was made between two
    /// moments of ours. `ttl`: the longest TTL of any client, for which readings are kept.
    /// `shortest`: a TTL of which a hundredth is too large an error of the clock.
    pub(super) fn read(
        &mut self,
        shows: Duration,
        sent: Duration,
        answered: Duration,
        ttl: Duration,
        shortest: Duration,
    ) {
        let shows = micros(shows);
        let measure =
            Measure { at: answered, least: shows - micros(answered), most: shows - micros(sent) };
        let is_set = self.measures.iter().any(|old| {
            let elapsed = answered.saturating_sub(old.at);
            // A thousandth covers the rate error of every clock.
            measure.gap(old) > micros(shortest / 100 + elapsed / 1000)
        });
        let last = self.measures.back().map(|last| last.at);
        if is_set {
            self.measures.clear();
            self.set = Some(answered);
        }
        if is_set || last.is_none_or(|last| answered.saturating_sub(last) > ttl) {
            self.since = answered;
        }
        // The newest measure always stays.
        while self
            .measures
            .front()
            .is_some_and(|old| answered.saturating_sub(old.at) > ttl && self.measures.len() > 1)
        {
            self.measures.pop_front();
        }
        let spaced = |newest: &Measure| answered.saturating_sub(newest.at) >= ttl / KEPT;
        match self.measures.back_mut() {
            Some(newest) if !spaced(newest) => {
                // Keep the more precise one.
                if measure.most - measure.least < newest.most - newest.least {
                    *newest = measure;
                }
            }
            _ => self.measures.push_back(measure),
        }
    }

    /// Returns `true` if the clock was set so recently that a key may have expired early.
    pub(super) fn was_set(&self, now: Duration, ttl: Duration) -> bool {
        self.set.is_some_and(|set| now.saturating_sub(set) <= ttl)
    }

    /// Returns `true` if the clock was watched without a gap for a TTL. What happened to it earlier
    /// does not matter.
    pub(super) fn is_watched(&self, now: Duration, ttl: Duration) -> bool {
        let newest = self.measures.back();
        newest.is_some_and(|newest| now.saturating_sub(newest.at) <= ttl)
            && now.saturating_sub(self.since) >= ttl
    }

    /// Returns how far the clock is ahead of ours, by the last measure.
    pub(super) fn ahead(&self) -> Option<i128> {
        self.measures.back().map(|newest| (newest.least + newest.most) / 2)
    }
}

/// Returns `true` if a majority of all clocks is within a tenth of a TTL of this one. This is for
/// clocks that were not watched yet. The clocks of a minority that was set fail the check, however
/// few other clocks are known.
pub(super) fn is_common(ahead: Micros, known: &[Micros], nodes: usize, ttl: Duration) -> bool {
    let near = |other: &&Micros| (ahead - **other).abs() <= micros(ttl / 10);
    known.iter().filter(near).count() > nodes / 2
}

/// Returns the median clock. If fewer than half of the clocks are wrong, it is a right clock, or
/// between two right ones.
pub(super) fn middle(mut all: Vec<Micros>) -> Option<Micros> {
    all.sort_unstable();
    all.get(all.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn ms(ms: i64) -> Duration {
        Duration::from_millis(u64::try_from(ms).unwrap())
    }

    /// Reads a clock that is `ahead` milliseconds ahead, with the given round trip.
    fn read(clock: &mut NodeClock, at: i64, ahead: i64, round_trip: i64) {
        clock.read(
            ms(at + 1_000_000 + ahead),
            ms(at - round_trip / 2),
            ms(at + round_trip / 2),
            TTL,
            TTL,
        );
    }

    #[test]
    fn changed_node_clock_is_detected() {
        for (ahead, round_trip, is_set) in [
            (0, 2, false),
            (90, 2, false),
            (-90, 2, false),
            (120, 2, true),
            (-120, 2, true),
            (3_600_000, 2, true),
            (-900_000, 2, true),
            // A slow reply cannot show it.
            (120, 200, false),
            (300, 200, true),
        ] {
            let mut clock = NodeClock::default();
            read(&mut clock, 5_000, 0, 2);
            read(&mut clock, 8_000, ahead, round_trip);
            assert_eq!(clock.was_set(ms(8_200), TTL), is_set, "{ahead} {round_trip}");
            assert!(!clock.was_set(ms(18_300), TTL), "it is forgotten");
        }
    }

    #[test]
    fn a_long_ttl_of_another_client_hides_no_step() {
        let mut clock = NodeClock::default();
        for (at, ahead) in [(5_000, 0), (8_000, 200)] {
            let shows = ms(at + 1_000_000 + ahead);
            clock.read(shows, ms(at), ms(at), TTL * 360, TTL);
        }
        assert!(clock.was_set(ms(8_000), TTL * 360));
    }

    #[test]
    fn small_steps_add_up() {
        let mut clock = NodeClock::default();
        for step in 0..4 {
            read(&mut clock, 5_000 + step * 2_000, step * 60, 2);
            assert_eq!(clock.was_set(ms(5_000 + step * 2_000), TTL), step >= 2, "{step}");
        }
    }

    #[test]
    fn slow_clock_is_not_a_changed_clock() {
        let mut clock = NodeClock::default();
        // 500 ppm, the fastest rate at which NTP adjusts a clock.
        for second in 1..200 {
            read(&mut clock, second * 1_000, second / 2, 2);
        }
        assert!(!clock.was_set(ms(200_000), TTL));
        // The same holds after an hour without readings.
        read(&mut clock, 3_800_000, 1_900, 2);
        assert!(!clock.was_set(ms(3_800_000), TTL));
    }

    #[test]
    fn a_clock_is_watched_after_a_ttl() {
        let mut clock = NodeClock::default();
        for at in [1_000, 4_000, 7_000, 10_000, 11_500] {
            read(&mut clock, at, 0, 2);
            assert_eq!(clock.is_watched(ms(at + 100), TTL), at > 11_000, "{at}");
        }
        assert!(!clock.is_watched(ms(22_000), TTL), "that was long ago");
        read(&mut clock, 30_000, 0, 2);
        assert!(!clock.is_watched(ms(30_001), TTL), "it begins anew");
    }

    #[test]
    fn median_clock_ignores_wrong_minority() {
        for (all, is_middle) in [
            (vec![60_000_000, 10, 0], Some(10)),
            (vec![-60_000_000, 5, 60_000_000], Some(5)),
            (vec![0, -60_000_000, -60_000_000, 20, 10], Some(0)),
            (vec![], None),
        ] {
            assert_eq!(middle(all), is_middle);
        }
    }

    #[test]
    fn the_clock_of_a_minority_is_not_common() {
        let second = 1_000_000;
        let hour = 3_600 * second;
        // Of five nodes, two were set forward by an hour. The number of known clocks varies.
        for (known, common) in [
            (&[0][..], &[false][..]),
            (&[0, 1], &[false, false]),
            (&[0, hour, hour], &[false, false, false]),
            (&[0, second, hour], &[false, false, false]),
            (&[0, 1, second], &[true, true, true]),
            (&[0, 1, hour, hour], &[false, false, false, false]),
            (&[0, 1, 2, hour, hour], &[true, true, true, false, false]),
        ] {
            let judged: Vec<_> =
                known.iter().map(|ahead| is_common(*ahead, known, 5, TTL)).collect();
            assert_eq!(judged, common, "{known:?}");
        }
        assert!(is_common(5, &[5], 1, TTL));
    }
}
