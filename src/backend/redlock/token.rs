//! The fencing token: a register of which a majority of the nodes keeps the newest value.
//!
//! A node has a counter for each lock. Who takes the lock reads the counters and the clocks of the
//! nodes, and proposes a token above all of them. Then each node that still has the taker's value
//! raises its counter to that, if it was lower. The lock is granted when a majority has done so.
//!
//! Of two grants, both majorities have a node in common. It had the values of the two one after the
//! other, so the counter was raised for the one before it was raised for the other: the later one's
//! token is higher. One that stood still in between finds its value gone from a majority, and is
//! not granted. The clocks are there for nodes that have lost their counters.

/// What a node says as the lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) counter: u64,
    /// By the node's clock.
    pub(super) milliseconds: u64,
}

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

/// The first token to propose.
pub(super) fn propose(seen: &[Seen]) -> u64 {
    let newest = seen.iter().map(|seen| seen.counter.max(seen.milliseconds)).max();
    newest.unwrap_or(0) + 1
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
        let seen = |counter, milliseconds| Seen { counter, milliseconds };
        for (all, token) in [
            (vec![seen(0, 1_000), seen(0, 1_003), seen(0, 998)], 1_004),
            (vec![seen(5_000, 1_000), seen(0, 1_003)], 5_001),
            (vec![], 1),
        ] {
            assert_eq!(propose(&all), token, "{all:?}");
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
