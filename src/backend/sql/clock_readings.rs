//! Whether what a session's row says of its end was written by a clock that was wrong.
//!
//! With each renewal a session's row gets a number, its beat, which the server draws in an order of
//! its own. With each answer a client reads how far those are, and what the clock shows. A session
//! that was renewed after the clock has shown a time, by its beat, and before that time, by its
//! row, was renewed while the clock was set back. So it is left alone: until it is renewed, or its
//! beat is not above one that was read a whole TTL ago, by the client's own clock. It was not
//! renewed since then.
//!
//! A clock that is set back by less than the time between two of these readings, and forward again
//! before the second one, is not noticed: a session that was opened meanwhile ends that much early.
//! So a request carries no fewer readings than it takes to keep that time below a quarter of their
//! age, wherever so many were made.

#[cfg(any(feature = "mysql", feature = "postgres", test))]
use std::fmt::Write as _;

/// Microseconds, of our clock or of the server's.
type Micros = i64;

/// What was read that soon after another one is not kept.
const APART: Micros = 20_000;

/// So many are kept before they are thinned out.
const MANY: usize = 600;

/// Marks may be so far from each other, however young they are.
const CLOSE: Micros = 100_000;

/// Sessions with a longer TTL than this are few, and their marks farther from each other.
const LONG: Micros = 60_000_000;

/// What has been read of them.
#[derive(Debug, Default)]
pub(crate) struct ClockReadings {
    /// The last one is the newest.
    read: Vec<Read>,
}

#[derive(Clone, Copy, Debug)]
struct Read {
    answered: Micros,
    shows: Micros,
    beat: i64,
}

/// The beats were that far when the clock showed this, so long ago at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    age: Micros,
    shows: Micros,
    beat: i64,
}

#[cfg(feature = "redis")]
impl Mark {
    /// With a blank before it.
    pub(crate) fn word(&self) -> String {
        format!(" {}:{}:{}", self.age, self.shows, self.beat)
    }
}

impl ClockReadings {
    /// The clock was set, or it is another server's.
    pub(crate) fn forget(&mut self) {
        self.read.clear();
    }

    /// How far they are while the clock shows this, as told in an answer that came then.
    pub(crate) fn saw(&mut self, beat: i64, shows: Micros, answered: Micros) {
        if let Some(last) = self.read.last() {
            if answered < last.answered + APART {
                return;
            }
            if beat < last.beat {
                // The server was started again, and its clock is behind.
                self.forget();
            }
        }
        self.read.push(Read { answered, shows, beat });
        if self.read.len() > MANY {
            self.thin_out(answered);
        }
    }

    /// The older they are, the farther apart they may be: of each stretch of time the first one is
    /// kept. Two stretches become one as they age, so that no gap grows by being thinned out again.
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

    /// Some of them, the newest first, up to the oldest. Between two of them there is no other, or
    /// less than a quarter of their age; above a minute, less than all of it.
    pub(crate) fn marks(&self, now: Micros) -> Vec<Mark> {
        let mut marks: Vec<Mark> = Vec::new();
        let mut farthest = 0;
        let mut reads = self.read.iter().rev().peekable();
        while let Some(read) = reads.next() {
            let age = now - read.answered;
            let next = reads.peek().map(|next| now - next.answered);
            // The next one may take its place if it is not too far from the mark before.
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
/// Whether a session that seems over is to be taken for it, in SQL: those are columns, and the beat
/// as it is now. `shows` makes a number what `expires` is, and `lasts` what `ttl` is. `renewed`: by
/// what the row says, no later than a twentieth of the TTL after this. `silent`: how the beat of a
/// row that was not renewed since a mark compares with that mark's.
///
/// A holder gives up 0.9 TTL after it has sent a keepalive, and so before the server has drawn that
/// one's beat. What is above all beats was drawn before the server was started, by another clock.
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
        // A text takes all that is written to it.
        let _ = write!(since, " WHEN beat >= {} THEN {}", mark.beat, shows(mark.shows));
        // A dead session is found by fewer of them, a little later.
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

    /// One that reads ten a second, each with the time in milliseconds for its beat.
    fn reader(until: Micros) -> ClockReadings {
        let mut beats = ClockReadings::default();
        for at in (1..until / 100_000).map(|tenth| tenth * 100_000) {
            beats.saw(at / 1000, at * 2, at);
        }
        beats
    }

    #[test]
    fn marks_are_ever_farther_apart() {
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

    /// What was read between two marks is not told, so they are close to each other; but for what
    /// was not read at all.
    #[test]
    fn marks_leave_out_little() {
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
    fn a_server_that_was_started_by_another_clock_begins_anew() {
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
    fn a_row_is_compared_with_what_was_read_before_it_was_written() {
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
