//! Sessions, which expire at the server's ticks (`SessionTrackerImpl`, `ExpiryQueue`).

use std::collections::BTreeMap;

/// The server's usual tick, in milliseconds.
const TICK: i64 = 1000;

#[derive(Debug)]
pub(crate) struct Sessions {
    /// The server's tick, in milliseconds.
    pub(crate) tick: i64,
    /// When each session expires without a request.
    ends: BTreeMap<i64, i64>,
    next: i64,
}

impl Sessions {
    pub(crate) fn new(now: i64) -> Self {
        // The server's own number is the highest byte, a part of the time the next five.
        let time = (now << 24).cast_unsigned() >> 8;
        Self { tick: TICK, ends: BTreeMap::new(), next: time.cast_signed() | 1 << 56 }
    }

    /// Returns the granted timeout for a requested one: 2 to 20 ticks.
    pub(crate) fn granted(&self, asked: i32) -> i32 {
        let granted = i64::from(asked).clamp(2 * self.tick, 20 * self.tick);
        i32::try_from(granted).unwrap_or(asked)
    }

    pub(crate) fn begin(&mut self, timeout: i32, now: i64) -> i64 {
        let session = self.next;
        self.next += 1;
        self.ends.insert(session, self.end_of(timeout, now));
        session
    }

    /// Extends a session by the timeout; returns `false` if it does not exist.
    pub(crate) fn touch(&mut self, session: i64, timeout: i32, now: i64) -> bool {
        let later = self.end_of(timeout, now);
        let found = self.ends.get_mut(&session);
        found.map(|end| *end = later).is_some()
    }

    /// Returns the first tick after the timeout has passed.
    fn end_of(&self, timeout: i32, now: i64) -> i64 {
        ((now + i64::from(timeout)) / self.tick + 1) * self.tick
    }

    pub(crate) fn end(&mut self, session: i64) {
        self.ends.remove(&session);
    }

    /// Returns an expired session, the earliest first.
    pub(crate) fn expired(&self, now: i64) -> Option<i64> {
        let over = self.ends.iter().filter(|(_, end)| **end <= now);
        over.min_by_key(|(session, end)| (**end, **session)).map(|(session, _)| *session)
    }

    /// Returns when the next session expires.
    pub(crate) fn next_end(&self) -> Option<i64> {
        self.ends.values().min().copied()
    }

    /// Returns the sessions that expire at each moment.
    pub(crate) fn by_end(&self) -> BTreeMap<i64, Vec<i64>> {
        let mut moments = BTreeMap::<i64, Vec<i64>>::new();
        for (session, end) in &self.ends {
            moments.entry(*end).or_default().push(*session);
        }
        moments
    }
}

/// Returns the password of a session: `ZooKeeperServer.generatePasswd`, with `java.util.Random`.
pub(crate) fn password(session: i64) -> [u8; 16] {
    const MULTIPLIER: u64 = 0x5_DEEC_E66D;
    const MASK: u64 = (1 << 48) - 1;
    let mut seed = ((session ^ 0xB341_5C00).cast_unsigned() ^ MULTIPLIER) & MASK;
    let mut password = [0; 16];
    for four in password.chunks_mut(4) {
        seed = seed.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK;
        four.copy_from_slice(&((seed >> 16) as u32).to_le_bytes());
    }
    password
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_end_at_the_tick_after_their_timeout() {
        let mut sessions = Sessions::new(5_300);
        let (short, long) = (sessions.begin(2000, 5_300), sessions.begin(4000, 5_300));
        assert_eq!(sessions.next_end(), Some(8_000));
        assert_eq!(sessions.expired(7_999), None);
        assert_eq!(sessions.expired(8_000), Some(short));
        assert!(sessions.touch(short, 2000, 8_000));
        assert_eq!(sessions.next_end(), Some(10_000));
        sessions.end(long);
        assert!(!sessions.touch(long, 4000, 8_000));
        for (tick, granted) in [(TICK, [2000, 20_000]), (200, [400, 4000])] {
            sessions.tick = tick;
            assert_eq!([1, i32::MAX].map(|asked| sessions.granted(asked)), granted);
        }
    }
}
