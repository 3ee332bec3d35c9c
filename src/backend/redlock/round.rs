//! Evaluates the replies of several nodes.

use std::sync::Arc;

/// What a vote is usually about, for [`Round::words`].
pub(super) const VALUE: &str = "the lock's value";

/// The vote in one node's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Vote {
    /// The node has our value.
    Yes,
    /// The node does not have our value.
    No,
    /// The reply does not count: see `node_state.rs`.
    Spoiled,
    /// The node did not reply.
    Silent,
    /// The node denies the request to this user, with this error.
    Denied(Arc<str>),
}

/// The result of the votes on one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The result is still open.
    Open,
    /// A majority has our value, so no other value can have one.
    Ours,
    /// No majority has our value, and the values of a majority are known.
    NotOurs,
    /// The result is unknown, as too many nodes are silent or do not count.
    Unknown,
}

/// The votes on one lock.
#[derive(Clone, Debug)]
pub(super) struct Round {
    nodes: usize,
    yes: usize,
    no: usize,
    spoiled: usize,
    silent: usize,
    denials: Vec<Arc<str>>,
}

impl Round {
    pub(super) fn new(nodes: usize) -> Self {
        Self { nodes, yes: 0, no: 0, spoiled: 0, silent: 0, denials: Vec::new() }
    }

    pub(super) fn count(&mut self, vote: Vote) {
        match vote {
            Vote::Yes => self.yes += 1,
            Vote::No => self.no += 1,
            Vote::Spoiled => self.spoiled += 1,
            Vote::Silent => self.silent += 1,
            Vote::Denied(error) => self.denials.push(error),
        }
    }

    /// Returns the number of nodes that is a majority.
    fn majority(&self) -> usize {
        self.nodes / 2 + 1
    }

    /// Returns the number of nodes that may still reply.
    fn open(&self) -> usize {
        self.nodes - self.yes - self.no - self.spoiled - self.silent - self.denials.len()
    }

    /// Returns whether a lock was acquired.
    pub(super) fn taken(&self) -> Outcome {
        let (open, majority) = (self.open(), self.majority());
        if self.yes >= majority {
            return Outcome::Ours;
        }
        if self.yes + open >= majority {
            return Outcome::Open;
        }
        // A client that shares the votes with another one is contended; a client without replies is
        // not.
        match self.yes + self.no {
            known if known >= majority => Outcome::NotOurs,
            known if known + open >= majority => Outcome::Open,
            _ => Outcome::Unknown,
        }
    }

    /// Returns `true` if so many nodes lack our value that a majority is impossible.
    pub(super) fn is_lost(&self) -> bool {
        self.no > self.nodes - self.majority()
    }

    /// Returns whether a lock that was ours still is. A node that does not count is assumed to have
    /// nothing of ours.
    pub(super) fn kept(&self) -> Outcome {
        let (open, majority) = (self.open(), self.majority());
        if self.yes >= majority {
            Outcome::Ours
        } else if self.no + self.spoiled > self.nodes - majority {
            Outcome::NotOurs
        } else if open > 0 {
            Outcome::Open
        } else {
            Outcome::Unknown
        }
    }

    /// Returns whether our value is gone, so that at most a minority still has it. Here `Yes` is a
    /// node that had our value until now, and `No` one that did not.
    pub(super) fn freed(&self) -> Outcome {
        let (open, enough) = (self.open(), self.nodes - self.majority() + 1);
        if self.yes + self.no >= enough {
            Outcome::Ours
        } else if self.yes + self.no + open >= enough {
            Outcome::Open
        } else {
            Outcome::Unknown
        }
    }

    /// Returns whether a majority may have had our value until it was released.
    pub(super) fn was_ours(&self) -> bool {
        self.no <= self.nodes - self.majority()
    }

    /// Returns how many nodes have replied, whether or not the replies count.
    pub(super) fn heard(&self) -> usize {
        self.yes + self.no + self.spoiled
    }

    /// Returns the reason as text if a majority denies the request, so that retrying does not help.
    /// The denial of a minority has the same effect as silence.
    pub(super) fn denial(&self) -> Option<String> {
        let is_denied = self.denials.len() >= self.majority();
        let errors = self.denials.join("; ");
        is_denied.then(|| format!("a majority of the nodes denies access to this user: {errors}"))
    }

    /// Describes the votes as text. `what`: what `Yes` means that a node has.
    pub(super) fn words(&self, what: &str) -> String {
        let Self { nodes, yes, no, spoiled, silent, denials } = self;
        let known = format!("of {nodes} nodes, {yes} have {what}, {no} do not");
        match denials.len() {
            0 => format!("{known}, {spoiled} do not count, and {silent} did not reply"),
            denied => format!(
                "{known}, {spoiled} do not count, {silent} did not reply, and {denied} denied \
                 access"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(nodes: usize, votes: &str) -> Round {
        let mut round = Round::new(nodes);
        for vote in votes.chars() {
            round.count(match vote {
                'y' => Vote::Yes,
                'n' => Vote::No,
                'x' => Vote::Spoiled,
                'd' => Vote::Denied("no right".into()),
                _ => Vote::Silent,
            });
        }
        round
    }

    #[test]
    fn a_majority_takes_a_lock() {
        use Outcome::*;
        for (nodes, votes, outcome) in [
            (5, "", Open),
            (5, "yy", Open),
            (5, "yyy", Ours),
            (5, "nnyyy", Ours),
            (5, "yynn", Open),
            (5, "yynnn", NotOurs),
            (5, "nnn", NotOurs),
            // One more reply decides whether another client was met.
            (5, "n-x", Open),
            (5, "n--", Open),
            (5, "n-xx", Unknown),
            (5, "nn--", Open),
            (5, "nn--y", NotOurs),
            (5, "yy---", Unknown),
            (5, "yyxxx", Unknown),
            (5, "---", Unknown),
            (5, "xxx", Unknown),
            (5, "ddd", Unknown),
            (5, "ddyyy", Ours),
            (5, "ddnnn", NotOurs),
            (3, "yy", Ours),
            (3, "yn", Open),
            (3, "ynn", NotOurs),
            (3, "y--", Unknown),
            (7, "yyyn", Open),
            (7, "yyyy", Ours),
        ] {
            assert_eq!(round(nodes, votes).taken(), outcome, "{nodes} {votes}");
        }
    }

    #[test]
    fn missing_replies_are_not_a_loss() {
        use Outcome::*;
        for (votes, outcome) in [
            ("", Open),
            ("yyy", Ours),
            ("yynn", Open),
            ("nnn", NotOurs),
            ("nnx", NotOurs),
            ("xxx", NotOurs),
            ("yyxx", Open),
            ("yynn-", Unknown),
            ("yy---", Unknown),
            ("-----", Unknown),
            ("ddddd", Unknown),
            ("yyydd", Ours),
        ] {
            assert_eq!(round(5, votes).kept(), outcome, "{votes}");
        }
    }

    #[test]
    fn only_a_majority_of_denials_is_final() {
        for (votes, is_denied) in
            [("ddd", true), ("yyddd", true), ("dd---", false), ("dd-xx", false), ("yyydd", false)]
        {
            assert_eq!(round(5, votes).denial().is_some(), is_denied, "{votes}");
        }
        assert!(round(3, "dd").denial().unwrap().ends_with(": no right; no right"));
        assert!(round(5, "ynxd-").words("it").ends_with("1 did not reply, and 1 denied access"));
        assert!(round(5, "ynx--").words("it").ends_with("and 2 did not reply"));
        assert_eq!(round(5, "ynxd-").heard(), 3);
    }

    #[test]
    fn lock_is_free_if_no_majority_is_possible() {
        use Outcome::*;
        for (votes, outcome, was_ours) in [
            ("yy", Open, true),
            ("yyy", Ours, true),
            ("ynn", Ours, true),
            ("nnn", Ours, false),
            ("yy---", Unknown, true),
            ("yy--n", Ours, true),
        ] {
            let round = round(5, votes);
            assert_eq!((round.freed(), round.was_ours()), (outcome, was_ours), "{votes}");
        }
        assert_eq!(round(5, "ynx-").heard(), 3);
    }
}
