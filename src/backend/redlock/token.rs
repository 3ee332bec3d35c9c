//! The fencing token: a register whose newest value is on a majority of the nodes.
//!
//! A node has a counter for each lock. A client that acquires the lock proposes a token above the
//! median clock. Each node that grants the lock raises its counter to the token, if the counter was
//! lower. The lock is granted once a majority has raised its counter. If no majority has, the
//! client proposes a token that is also above all counters in the replies. Each node that still has
//! the client's value then raises its counter to that token.
//!
//! The majorities of two grants share a node. That node had the values of the two grants one after
//! the other, so it raised its counter for the earlier grant first: the later grant has the higher
//! token. A client that was paused in between finds that a majority no longer has its value, and is
//! not granted the lock.
//!
//! The clocks are needed for nodes that have lost their counters. The median is a right clock, or
//! between two right clocks, as long as fewer than half of the known clocks are wrong. A single
//! clock that is ahead must not enter a token: later tokens would be lower once the counters with
//! that token are lost.

use std::time::Duration;

/// A node's reply to a proposed token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The counter is now the token.
    Raised,
    /// The counter was not lower than the token: it has this value.
    Ahead(u64),
    /// The node has another client's value, or none.
    NotOurs,
}

/// Returns the token to propose before any counter is read. It is above the median clock if that is
/// the clock of a majority, else 0 for none.
pub(super) fn propose_unread(is_known: bool, microseconds: u64) -> u64 {
    if is_known { propose(0, microseconds) } else { 0 }
}

/// Returns `true` if the token is near the median clock after the nodes have replied. A hypervisor
/// may have paused this machine with its clock, and other clients may have received higher tokens
/// since.
pub(super) fn is_timely(token: u64, microseconds: u64, limit: Duration) -> bool {
    u128::from(token.abs_diff(microseconds)) <= limit.as_micros()
}

/// Returns the first token to propose: above the highest counter and the median clock.
pub(super) fn propose(counter: u64, microseconds: u64) -> u64 {
    counter.max(microseconds) + 1
}

/// Returns the next token to propose after a refused one. Returns `None` if no node requires a
/// higher one.
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
    fn token_is_above_all_seen_counters() {
        for (counter, microseconds, token) in [(0, 1_003, 1_004), (5_000, 1_003, 5_001), (0, 0, 1)]
        {
            assert_eq!(propose(counter, microseconds), token);
        }
    }

    #[test]
    fn token_proposed_without_reads_must_be_near_the_clock() {
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
            // The counter is ours: an earlier request raised it, and its reply was lost.
            (vec![Ahead(10)], Some(11)),
            (vec![Raised, NotOurs], None),
        ] {
            assert_eq!(propose_again(10, &answers), next, "{answers:?}");
        }
    }
}
