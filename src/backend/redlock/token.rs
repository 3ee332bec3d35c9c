//! The fencing token: a register of which a majority of the nodes keeps the newest value.
//!
//! A node has a counter for each lock. Who takes the lock proposes a token above the median clock,
//! and each node that gives it the lock raises its counter to that, if it was lower. The lock is
//! granted when a majority has done so. If none has, the taker proposes a token above all counters
//! that it was told, too, and each node that still has its value raises its counter to that one.
//!
//! Of two grants, both majorities have a node in common. It had the values of the two one after the
//! other, so the counter was raised for the one before it was raised for the other: the later one's
//! token is higher. One that stood still in between finds its value gone from a majority, and is
//! not granted.
//!
//! The clocks are there for nodes that have lost their counters. The median is the clock of a node
//! that is right, or between two such, as long as fewer than half of the known clocks are wrong. A
//! single clock that is ahead must not enter a token: later tokens would fall once the counters
//! that have it are lost.

use std::time::Duration;

/// What a node says to a proposed token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Its counter is that now.
    Raised,
    /// Its counter is not lower: this.
    Ahead(u64),
    /// It has another value, or none.
    NotOurs,
}

/// The token to propose before any counter is read: above the median clock, if that is the clock of
/// a majority. 0: none.
pub(super) fn propose_unread(is_known: bool, microseconds: u64) -> u64 {
    if is_known { propose(0, microseconds) } else { 0 }
}

/// Whether that token is near the median clock once the nodes have answered. The hypervisor may
/// have stopped this machine meanwhile, and its clock with it: then others' tokens may be higher.
pub(super) fn is_timely(token: u64, microseconds: u64, limit: Duration) -> bool {
    u128::from(token.abs_diff(microseconds)) <= limit.as_micros()
}

/// The first token to propose: above the highest counter, and what the median clock shows.
pub(super) fn propose(counter: u64, microseconds: u64) -> u64 {
    counter.max(microseconds) + 1
}

/// The next one, after one was refused; `None`: no node asks for a higher one.
pub(super) fn propose_again(refused: u64, answers: &[Answer]) -> Option<u64> {
    let counters = answers.iter().filter_map(|answer| match answer {
        Answer::Ahead(counter) => Some(*counter),
        Answer::Raised | Answer::NotOurs => None,
    });
    counters.max().map(|counter| counter.max(refused) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_above_all_that_was_seen() {
        for (counter, microseconds, token) in [(0, 1_003, 1_004), (5_000, 1_003, 5_001), (0, 0, 1)]
        {
            assert_eq!(propose(counter, microseconds), token);
        }
    }

    #[test]
    fn a_token_is_proposed_unread_by_a_majority_of_clocks() {
        assert_eq!([false, true].map(|is_known| propose_unread(is_known, 1_003)), [0, 1_004]);
        let limit = Duration::from_millis(200);
        for (token, is_near) in
            [(5_000_001, true), (4_800_000, true), (4_799_999, false), (5_200_001, false)]
        {
            assert_eq!(is_timely(token, 5_000_000, limit), is_near, "{token}");
        }
    }

    #[test]
    fn a_refused_token_is_followed_by_a_higher_one() {
        use Answer::*;
        for (answers, next) in [
            (vec![Raised, Ahead(7), Ahead(12)], Some(13)),
            // As ours has it that was raised by an answer that never came.
            (vec![Ahead(10)], Some(11)),
            (vec![Raised, NotOurs], None),
        ] {
            assert_eq!(propose_again(10, &answers), next, "{answers:?}");
        }
    }
}
