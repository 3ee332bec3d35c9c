//! Whether what a session's row says of its end was written by a clock that was wrong.
//!
//! With each renewal a session's row gets a number, its beat, which the server draws in an order of
//! its own. With each answer a client reads how far those are, and what the clock shows. A session
//! that was renewed after the clock has shown a time, by its beat, and was over before that time,
//! by its row, was renewed while the clock was set back. So it is left alone: until it is renewed,
//! or its beat is not above one that was read a whole TTL ago, by the client's own clock. It was
//! not renewed since then.

#[cfg(any(feature = "mysql", feature = "postgres", test))]
use std::fmt::Write as _;

/// Microseconds, of our clock or of the server's.
type Micros = i64;

/// What was read that soon after another one is not kept.
const APART: Micros = 20_000;

/// So many are kept before they are thinned out.
const MANY: usize = 600;

/// What has been read of them.
#[derive(Debug, Default)]
pub(crate) struct Beats {
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

impl Beats {
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

    /// Some of them, the newest first, each about twice as old as the one before, up to the oldest.
    pub(crate) fn marks(&self, now: Micros) -> Vec<Mark> {
        let mut marks: Vec<Mark> = Vec::new();
        for (at, read) in self.read.iter().enumerate().rev() {
            let age = now - read.answered;
            if at == 0 || marks.last().is_none_or(|last| age >= last.age.max(APART) * 2) {
                marks.push(Mark { age, shows: read.shows, beat: read.beat });
            }
        }
        marks
    }
}

#[cfg(any(feature = "mysql", feature = "postgres", test))]
/// Whether a session that seems over is to be taken for it, in SQL: those are columns, and the beat
/// as it is now. `shows` makes a number what `expires` is, and `lasts` what `ttl` is.
///
/// A holder gives up 0.9 TTL after it has sent a keepalive, and so before the server has drawn that
/// one's beat. What is above all beats was drawn before the server was started, by another clock.
pub(crate) fn is_over(
    marks: &[Mark],
    now: &str,
    shows: impl Fn(Micros) -> String,
    lasts: impl Fn(Micros) -> String,
) -> String {
    if marks.is_empty() {
        return "TRUE".to_owned();
    }
    let (mut since, mut silent) = ("CASE".to_owned(), String::new());
    for mark in marks {
        // A text takes all that is written to it.
        let _ = write!(since, " WHEN beat >= {} THEN {}", mark.beat, shows(mark.shows));
        let ttl = lasts(mark.age - mark.age / 20);
        let _ = write!(silent, " OR beat <= {} AND ttl <= {ttl}", mark.beat);
    }
    format!("(expires >= {since} ELSE expires END{silent} OR beat > {now})")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Micros = 1_000_000;

    /// One that reads ten a second, each with the time in milliseconds for its beat.
    fn reader(until: Micros) -> Beats {
        let mut beats = Beats::default();
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
        assert!((10..40).contains(&marks.len()), "{marks:?}");
        assert_eq!(marks[0], Mark { age: 100_000, shows: (now - 100_000) * 2, beat: 86_399_900 });
        assert_eq!(marks.last().map(|oldest| oldest.beat), Some(100));
        for (mark, older) in marks.iter().zip(&marks[1..]) {
            assert!((1.0..2.6).contains(&(older.age as f64 / mark.age as f64)), "{marks:?}");
            assert_eq!((mark.beat * 1000, mark.shows), (now - mark.age, (now - mark.age) * 2));
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
        let told = |marks: &[Mark]| {
            is_over(marks, "n", |shows| format!("s{shows}"), |lasts| format!("l{lasts}"))
        };
        assert_eq!(told(&[]), "TRUE");
        let marks = [Mark { age: 100, shows: 7, beat: 70 }, Mark { age: 200, shows: 6, beat: 60 }];
        assert_eq!(
            told(&marks),
            "(expires >= CASE WHEN beat >= 70 THEN s7 WHEN beat >= 60 THEN s6 ELSE expires END \
             OR beat <= 70 AND ttl <= l95 OR beat <= 60 AND ttl <= l190 OR beat > n)"
        );
    }
}
