//! Which sessions were certainly not renewed for a while, whatever clocks have shown.
//!
//! With each renewal a session's row gets a number, its beat, which the server draws in an order of
//! its own. With each answer a client reads how far those numbers are. A session whose beat is not
//! above one that was read a whole TTL ago, by the client's own clock, was not renewed since: its
//! holder has given up.
//!
//! A server that starts again may begin with any number. So what was read by former connections
//! counts for nothing.

use std::fmt::Write as _;

/// Microseconds of our clock.
type Micros = i64;

/// What was read that soon after another one is not kept.
const APART: Micros = 20_000;

/// So many are kept before they are thinned out.
const MANY: usize = 600;

/// What has been read of them, by whom it was asked for.
#[derive(Debug, Default)]
pub(crate) struct Beats {
    /// How long one's own sessions are to live.
    ttl: Micros,
    /// When the last connection was made.
    since: Micros,
    /// The last one is the newest.
    read: Vec<Read>,
}

#[derive(Clone, Copy, Debug)]
struct Read {
    answered: Micros,
    beat: i64,
}

/// A session of this length, or a shorter one, was not renewed for so long if its beat is not above
/// this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    ttl: Micros,
    beat: i64,
}

impl Beats {
    /// One's own sessions are to live for so long.
    pub(crate) fn live_for(&mut self, ttl: Micros) {
        self.ttl = self.ttl.max(ttl);
    }

    /// A connection is made.
    pub(crate) fn connected(&mut self, now: Micros) {
        self.since = now;
        self.read.clear();
    }

    /// How far they are, as told to a request that was sent and answered then.
    pub(crate) fn saw(&mut self, beat: i64, sent: Micros, answered: Micros) {
        let last = self.read.last().map_or(Micros::MIN / 2, |last| last.answered);
        if sent < self.since || answered < last + APART {
            return;
        }
        self.read.push(Read { answered, beat });
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

    /// The limits for sessions of one's own length, and for shorter and longer ones about that
    /// long, the shortest first.
    ///
    /// A holder gives up 0.9 TTL after it has sent a keepalive, and so before the server has drawn
    /// that one's beat. Two clocks differ by 0.02 of a time at most.
    pub(crate) fn limits(&self, now: Micros) -> Vec<Limit> {
        let mut limits: Vec<Limit> = Vec::new();
        for ttl in lengths(self.ttl) {
            let at = self.read.partition_point(|read| read.answered <= now - (ttl - ttl / 20));
            let Some(read) = at.checked_sub(1).and_then(|at| self.read.get(at)) else { break };
            match limits.last_mut() {
                Some(last) if last.beat == read.beat => last.ttl = ttl,
                _ => limits.push(Limit { ttl, beat: read.beat }),
            }
        }
        limits
    }
}

/// From a quarter of it to a multiple that nobody needs.
fn lengths(ttl: Micros) -> impl Iterator<Item = Micros> {
    const SHARES: [Micros; 13] = [26, 33, 41, 51, 64, 80, 100, 125, 156, 195, 244, 305, 400];
    let near = SHARES.into_iter().map(move |share| ttl / 100 * share);
    let far = (3..20).map(move |power| ttl.saturating_mul(1 << power));
    near.chain(far).filter(|ttl| *ttl > 0)
}

/// Whether a session's beat shows that it was not renewed for its TTL, in SQL: those are columns,
/// and the beats as they are now. `unit` makes a number of microseconds what `ttl` is.
///
/// What is above all of them was drawn before the server was started, or is another server's.
pub(crate) fn is_silent(limits: &[Limit], now: &str, unit: &str) -> String {
    let mut limit = "CASE".to_owned();
    for Limit { ttl, beat } in limits {
        // A text takes all that is written to it.
        let _ = write!(limit, " WHEN ttl <= {ttl}{unit} THEN {beat}");
    }
    limit += match limits {
        [] => " WHEN FALSE THEN 0 END",
        _ => " END",
    };
    format!("({limit} >= beat OR beat > {now} AND {limit} IS NOT NULL)")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Micros = 1_000_000;

    /// The beat that one of this length is measured by.
    fn limit(beats: &Beats, now: Micros, ttl: Micros) -> Option<i64> {
        beats.limits(now).into_iter().find(|limit| ttl <= limit.ttl).map(|limit| limit.beat)
    }

    /// One that reads ten a second, each with the time in milliseconds for its beat.
    fn reader(ttl: Micros, until: Micros) -> Beats {
        let mut beats = Beats::default();
        beats.live_for(ttl);
        beats.connected(0);
        for at in (1..until / 100_000).map(|tenth| tenth * 100_000) {
            beats.saw(at / 1000, at - 1000, at);
        }
        beats
    }

    #[test]
    fn a_beat_counts_when_it_is_a_ttl_old() {
        let beats = reader(2 * SECOND, 5 * SECOND);
        assert_eq!(limit(&beats, 5 * SECOND, 2 * SECOND), Some(3100), "1.9 s ago");
        // Nobody has read any 5 s ago, and others may live for so long.
        assert_eq!(limit(&beats, 5 * SECOND, 6 * SECOND), None);
        assert_eq!(limit(&beats, SECOND, 2 * SECOND), None);
        let short = limit(&beats, 5 * SECOND, SECOND).expect("it was read long ago");
        assert!((3700..=4000).contains(&short), "{short}");
        assert_eq!(limit(&Beats::default(), SECOND, SECOND), None);
    }

    #[test]
    fn a_connection_begins_anew() {
        let mut beats = reader(2 * SECOND, 5 * SECOND);
        beats.connected(5 * SECOND);
        // Of the former one, come late.
        beats.saw(9, 5 * SECOND - 1, 5 * SECOND + 1);
        assert_eq!(beats.limits(100 * SECOND), []);
        beats.saw(3, 5 * SECOND, 5 * SECOND + 1);
        assert_eq!(limit(&beats, 8 * SECOND, 2 * SECOND), Some(3));
    }

    #[test]
    fn a_day_is_remembered_in_short() {
        let beats = reader(10 * SECOND, 86_400 * SECOND);
        assert!(beats.read.len() <= MANY, "{}", beats.read.len());
        let now = 86_400 * SECOND;
        for ttl in [2, 3, 9, 10, 11, 29, 60, 3600].map(|seconds| seconds * SECOND) {
            let beat = limit(&beats, now, ttl).expect("it was read long ago") * 1000;
            let age = (now - beat) as f64 / ttl as f64;
            assert!((0.95..2.2).contains(&age), "{ttl}: {age}");
        }
        let own = now - limit(&beats, now, 10 * SECOND).unwrap() * 1000;
        assert!(own < 10 * SECOND + SECOND / 2, "{own}");
    }

    #[test]
    fn without_a_limit_nobody_is_silent() {
        assert!(is_silent(&[], "n", "").starts_with("(CASE WHEN FALSE THEN 0 END >= beat OR"));
        let limits = [Limit { ttl: 5, beat: 7 }, Limit { ttl: 9, beat: 3 }];
        let case = "CASE WHEN ttl <= 5 u THEN 7 WHEN ttl <= 9 u THEN 3 END";
        let told = is_silent(&limits, "n", " u");
        assert_eq!(told, format!("({case} >= beat OR beat > n AND {case} IS NOT NULL)"));
    }
}
