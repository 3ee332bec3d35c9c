//! The fencing token: a register of which a majority of the nodes keeps the newest value.
//!
//! A node has a counter for each lock. Who takes the lock reads the counters and the clocks of the
//! nodes, and proposes a token above all counters and the median clock. Then each node that still
//! has the taker's value raises its counter to that, if it was lower. The lock is granted when a
//! majority has done so.
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

/// The first token to propose: above the highest counter, and what the median clock shows.
pub(super) fn propose(counter: u64, milliseconds: u64) -> u64 {
    counter.max(milliseconds) + 1
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
        for (counter, milliseconds, token) in [(0, 1_003, 1_004), (5_000, 1_003, 5_001), (0, 0, 1)]
        {
            assert_eq!(propose(counter, milliseconds), token);
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
