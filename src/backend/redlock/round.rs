//! What follows from the answers of some nodes.

/// What one node's answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vote {
    /// It has our value.
    Yes,
    /// It has not.
    No,
    /// What it says does not count: see `node_state.rs`.
    Spoiled,
    /// It did not answer.
    Silent,
}

/// What follows from the votes on one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing yet.
    Open,
    /// A majority has our value: no other one can.
    Ours,
    /// No majority has it, and of a majority it is known what it has.
    NotOurs,
    /// It is not known, as too many nodes are silent or do not count.
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
}

impl Round {
    pub(super) fn new(nodes: usize) -> Self {
        Self { nodes, yes: 0, no: 0, spoiled: 0, silent: 0 }
    }

    pub(super) fn count(&mut self, vote: Vote) {
        match vote {
            Vote::Yes => self.yes += 1,
            Vote::No => self.no += 1,
            Vote::Spoiled => self.spoiled += 1,
            Vote::Silent => self.silent += 1,
        }
    }

    /// How many nodes are more than half of them.
    fn majority(&self) -> usize {
        self.nodes / 2 + 1
    }

    /// Those that may yet answer.
    fn open(&self) -> usize {
        self.nodes - self.yes - self.no - self.spoiled - self.silent
    }

    /// Whether a lock was taken.
    pub(super) fn taken(&self) -> Outcome {
        let (open, majority) = (self.open(), self.majority());
        if self.yes >= majority {
            return Outcome::Ours;
        }
        if self.yes + open >= majority {
            return Outcome::Open;
        }
        // Who shares the votes with another one has met somebody; who meets silence has not.
        match self.yes + self.no {
            known if known >= majority => Outcome::NotOurs,
            known if known + open >= majority => Outcome::Open,
            _ => Outcome::Unknown,
        }
    }

    /// Whether so many have not our value that no answer can make it ours.
    pub(super) fn is_lost(&self) -> bool {
        self.no > self.nodes - self.majority()
    }

    /// Whether a lock that was ours still is. A node that does not count has nothing of ours, for
    /// all that is known.
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

    /// Whether a lock is free of us: so many nodes have nothing of ours that the others are no
    /// majority. Here a `Yes` is one that had our value until now, and a `No` had not.
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

    /// Of one that was freed: whether a majority may have had our value until then.
    pub(super) fn was_ours(&self) -> bool {
        self.no <= self.nodes - self.majority()
    }

    /// How many have answered, whether or not that counts.
    pub(super) fn heard(&self) -> usize {
        self.yes + self.no + self.spoiled
    }

    /// What is to be told to people.
    pub(super) fn words(&self) -> String {
        let Self { nodes, yes, no, spoiled, silent } = self;
        format!(
            "of {nodes} nodes {yes} have it, {no} have not, {spoiled} do not count and {silent} \
             do not answer"
        )
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
            // One more answer decides whether anybody was met.
            (5, "n-x", Open),
            (5, "n--", Open),
            (5, "n-xx", Unknown),
            (5, "nn--", Open),
            (5, "nn--y", NotOurs),
            (5, "yy---", Unknown),
            (5, "yyxxx", Unknown),
            (5, "---", Unknown),
            (5, "xxx", Unknown),
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
    fn silence_is_no_loss() {
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
        ] {
            assert_eq!(round(5, votes).kept(), outcome, "{votes}");
        }
    }

    #[test]
    fn a_lock_is_free_when_no_majority_can_have_it() {
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
