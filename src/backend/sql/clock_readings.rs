//! Decides whether the expiry time in a session's row was written by a wrong clock.
//!
//! Each renewal gives the session's row a number, its beat, which the server draws in an order of
//! its own. From each reply the client reads the server's current beat and its clock. If the beat
//! in a row is later than that of a reading, the renewal should be later by the clock, too. If the
//! row shows an earlier time, the session was renewed while the clock was set back. The client then
//! removes it only if its beat is at or below one that was read a whole TTL ago by the client's own
//! clock. Such a session was not renewed since then. A renewal by the corrected clock also ends the
//! doubt.
//!
//! One case remains unnoticed: the clock is set back by less than the time between two readings,
//! and forward again before the second one. A session that was opened or renewed in between may
//! then end too early, by at most that amount. Each request therefore carries enough readings to
//! keep the gap between them within a quarter of their age or 100 ms, where so many readings exist.
//! Above an age of one minute, the gaps may be larger.

#[cfg(any(feature = "mysql", feature = "postgres", test))]
use std::fmt::Write as _;

/// Microseconds of the client's or of the server's clock.
type Micros = i64;

/// A reading is discarded if it follows another one within this time.
const APART: Micros = 20_000;

/// The number of readings that are kept before they are thinned out.
const MANY: usize = 600;

/// Marks may be this far apart, whatever their age.
const CLOSE: Micros = 100_000;

/// Few sessions have a longer TTL than this, so marks may be farther apart above it.
const LONG: Micros = 60_000_000;

/// The readings of one server.
#[derive(Debug, Default)]
pub(crate) struct ClockReadings {
    /// The newest reading is the last one.
    read: Vec<Read>,
}

#[derive(Clone, Copy, Debug)]
struct Read {
    answered: Micros,
    shows: Micros,
    beat: i64,
}

/// A reading: the server's beat and clock, at least this long ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    age: Micros,
    shows: Micros,
    beat: i64,
}

#[cfg(feature = "redis")]
impl Mark {
    /// Formats the mark with a leading space.
    pub(crate) fn encoded(&self) -> String {
        format!(" {}:{}:{}", self.age, self.shows, self.beat)
    }
}

impl ClockReadings {
    /// Discards all readings, because the clock was set or belongs to another server.
    pub(crate) fn forget(&mut self) {
        self.read.clear();
    }

    /// Records the beat and the clock of a reply that arrived at `answered`.
    pub(crate) fn saw(&mut self, beat: i64, shows: Micros, answered: Micros) {
        if let Some(last) = self.read.last() {
            if answered < last.answered + APART {
                return;
            }
            if beat < last.beat {
                // The server was restarted, and its clock is behind.
                self.forget();
            }
        }
        self.read.push(Read { answered, shows, beat });
        if self.read.len() > MANY {
            self.thin_out(answered);
        }
    }

    /// Thins out the readings: the older they are, the farther apart they may be. The first reading
    /// of each interval is kept. Intervals merge in pairs as they age, so that repeated thinning
    /// does not widen the gaps.
    fn thin_out(&mut self, now: Micros) {
        let stretch = |read: &Read| {
            let mut long = APART;
            while long * 2 <= (now - read.answered) / 8 {
                long *= 2;
            }
            (long, read.answered / long)
        };
        self.read.dedup_by_key(|read| stretch(read));
    }

    /// Returns some of the readings, newest first, up to the oldest. Between two marks there is no
    /// other reading, or the gap is at most a quarter of the newer one's age, or 100 ms. Above one
    /// minute, the gap is at most that age.
    pub(crate) fn marks(&self, now: Micros) -> Vec<Mark> {
        let mut marks: Vec<Mark> = Vec::new();
        let mut farthest = 0;
        let mut reads = self.read.iter().rev().peekable();
        while let Some(read) = reads.next() {
            let age = now - read.answered;
            let next = reads.peek().map(|next| now - next.answered);
            // Skip this one if the next one is near enough to the previous mark.
            if !marks.is_empty() && next.is_some_and(|next| next <= farthest) {
                continue;
            }
            let apart = if age < LONG { (age / 4).max(CLOSE) } else { age };
            farthest = age + apart;
            marks.push(Mark { age, shows: read.shows, beat: read.beat });
        }
        marks
    }
}

#[cfg(any(feature = "mysql", feature = "postgres", test))]
/// Returns the SQL condition that a session that seems expired has in fact expired.
///
/// `renewed` is the renewal time by the row, at most a twentieth of the TTL late, and `now` is the
/// current beat. `shows` converts a number to the type of `expires`, and `lasts` to that of `ttl`.
/// `silent` compares the row's beat with that of a mark since which the row was not renewed.
///
/// A holder gives up 0.9 TTL after it has sent a keepalive, and the server draws the beat after
/// that. A beat above the current one was drawn before the server was restarted, with another
/// clock.
pub(crate) fn is_over(
    marks: &[Mark],
    now: &str,
    renewed: &str,
    silent: &str,
    shows: impl Fn(Micros) -> String,
    lasts: impl Fn(Micros) -> String,
) -> String {
    if marks.is_empty() {
        return "TRUE".to_owned();
    }
    let (mut since, mut not_renewed) = ("CASE".to_owned(), String::new());
    let mut least = 0;
    for (at, mark) in marks.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(since, " WHEN beat >= {} THEN {}", mark.beat, shows(mark.shows));
        // Fewer marks suffice for finding a dead session, only a little later.
        if mark.age >= least || at + 1 == marks.len() {
            least = mark.age.max(APART) * 2;
            let ttl = lasts(mark.age - mark.age / 20);
            let _ = write!(not_renewed, " OR beat {silent} {} AND ttl <= {ttl}", mark.beat);
        }
    }
    format!("({renewed} >= {since} ELSE {renewed} END{not_renewed} OR beat > {now})")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Micros = 1_000_000;

    /// Returns the readings of a client that reads ten times a second. The beat is the time in
    /// milliseconds.
    fn reader(until: Micros) -> ClockReadings {
        let mut beats = ClockReadings::default();
        for at in (1..until / 100_000).map(|tenth| tenth * 100_000) {
            beats.saw(at / 1000, at * 2, at);
        }
        beats
    }

    #[test]
    fn clock_readings_get_sparser_with_age() {
        let now = 86_400 * SECOND;
        let beats = reader(now);
        assert!(beats.read.len() <= MANY, "{}", beats.read.len());
        let marks = beats.marks(now);
        assert!((20..50).contains(&marks.len()), "{} {marks:?}", marks.len());
        assert_eq!(marks[0], Mark { age: 100_000, shows: (now - 100_000) * 2, beat: 86_399_900 });
        assert_eq!(marks.last().map(|oldest| oldest.beat), Some(100));
        for mark in &marks {
            assert_eq!((mark.beat * 1000, mark.shows), (now - mark.age, (now - mark.age) * 2));
        }
    }

    /// The marks are close to each other, because a clock change between two of them goes
    /// unnoticed. Gaps without readings are the exception.
    #[test]
    fn sent_clock_readings_leave_small_gaps() {
        for (pause, after) in [(0, 0), (SECOND, 0), (SECOND, 2), (3 * SECOND, 5), (SECOND, 40)] {
            let mut beats = reader(20 * SECOND);
            let (mut at, mut beat) = (20 * SECOND + pause, 20_000);
            for _ in 0..=after * 10 {
                (at, beat) = (at + SECOND / 10, beat + 1);
                beats.saw(beat, at * 2, at);
            }
            for wait in [0, SECOND / 3, SECOND, 3 * SECOND, 50 * SECOND] {
                let now = at + wait;
                let marks = beats.marks(now);
                for (mark, older) in marks.iter().zip(&marks[1..]) {
                    let most = if mark.age < LONG { CLOSE.max(mark.age / 4) } else { mark.age };
                    let between = |read: &&Read| read.beat > older.beat && read.beat < mark.beat;
                    let left_out = beats.read.iter().any(|read| between(&read));
                    assert!(!left_out || older.age <= mark.age + most, "{mark:?} {older:?}");
                }
            }
        }
    }

    #[test]
    fn clock_readings_restart_after_server_restart() {
        let mut beats = reader(5 * SECOND);
        // Too soon to be kept.
        beats.saw(9, 1, 4_900_001);
        assert!(beats.marks(5 * SECOND).len() > 1);
        beats.saw(3, 1, 5 * SECOND);
        assert_eq!(beats.marks(6 * SECOND), [Mark { age: SECOND, shows: 1, beat: 3 }]);
        beats.forget();
        assert_eq!(beats.marks(6 * SECOND), []);
    }

    #[test]
    fn row_is_compared_with_earlier_clock_readings() {
        let condition = |marks: &[Mark]| {
            is_over(marks, "n", "r", "<=", |shows| format!("s{shows}"), |lasts| format!("l{lasts}"))
        };
        assert_eq!(condition(&[]), "TRUE");
        let marks = [Mark { age: 100, shows: 7, beat: 70 }, Mark { age: 200, shows: 6, beat: 60 }];
        assert_eq!(
            condition(&marks),
            "(r >= CASE WHEN beat >= 70 THEN s7 WHEN beat >= 60 THEN s6 ELSE r END \
             OR beat <= 70 AND ttl <= l95 OR beat <= 60 AND ttl <= l190 OR beat > n)"
        );
    }
}
