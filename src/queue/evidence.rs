//! What a waiter knows when it wakes up, and what follows from that.
//!
//! A wake-up is a reason to check the queue; it is not a grant. The key ahead may have belonged to
//! a waiter that gave up while others are still in front of it.

use crate::backend::{Fate, Predecessor, Present};

/// What is known at a wake-up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// A holder of this session deleted the key ahead. Our key existed in the same transaction.
    Inherited,
    /// Both keys were read. `seen`: the key ahead was found in front of ours after we joined.
    Looked { present: Present, seen: bool },
    /// A waiter of this session deleted the key ahead. That waiter was behind this predecessor.
    Withdrawn(Predecessor),
    /// The key ahead may have changed.
    Hint,
}

/// The conclusion that a waiter draws from the evidence.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Conclusion {
    /// No entry is in front of our key.
    First,
    /// Our key no longer exists.
    Evicted,
    /// The predecessor is still in the queue.
    Waits,
    /// Our key has this new predecessor.
    Behind(Predecessor),
    /// The waiter has to read the queue.
    Unknown,
}

/// Draws the conclusion from the evidence.
///
/// The absence of a key proves nothing about the entries that were in front of it, unless it is
/// known that there were none.
pub(crate) fn conclude(evidence: Evidence, predecessor: &Predecessor) -> Conclusion {
    match evidence {
        // A holder has no entry in front of it. There was no entry between the holder and us
        // either, because its session reported it as our predecessor. No entry can join there: new
        // keys are added only at the end.
        Evidence::Inherited => Conclusion::First,
        // A waiter has left. There was no entry between it and its predecessor, nor between it and
        // us.
        Evidence::Withdrawn(next) => Conclusion::Behind(next),
        Evidence::Looked { present: Present { own: false, .. }, .. } => Conclusion::Evicted,
        Evidence::Looked { present: Present { ahead: Fate::There, .. }, .. } => Conclusion::Waits,
        // The key belonged to a holder, so no entry was in front of it. It was the nearest key to
        // ours, so no entry was in between, and no entry can join there.
        Evidence::Looked { present: Present { ahead: Fate::Released, .. }, .. } => {
            Conclusion::First
        }
        // The key was seen in front of ours with no entry before it, and no entry can join there.
        Evidence::Looked { present: Present { ahead: Fate::Gone, .. }, seen: true }
            if predecessor.first =>
        {
            Conclusion::First
        }
        // Other entries may be in front of it, or it was never seen and was not the nearest one.
        Evidence::Looked { present: Present { ahead: Fate::Gone, .. }, .. } => Conclusion::Unknown,
        Evidence::Hint => Conclusion::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Entry;

    fn behind(key: &str, first: bool) -> Predecessor {
        let entry = Entry { key: key.into(), revision: 1, token: 1, crowded: false };
        Predecessor { entry, first, seen: false }
    }

    fn looked(own: bool, ahead: Fate, seen: bool) -> Evidence {
        Evidence::Looked { present: Present { own, ahead }, seen }
    }

    #[test]
    fn conclusion_follows_from_evidence() {
        let (holder, waiter) = (behind("holder", true), behind("waiter", false));
        let next = || behind("next", false);
        for (evidence, predecessor, wanted) in [
            // The transaction of this session's holder decides, whatever was known before.
            (Evidence::Inherited, &waiter, Conclusion::First),
            (Evidence::Withdrawn(next()), &waiter, Conclusion::Behind(next())),
            (Evidence::Hint, &holder, Conclusion::Unknown),
            (Evidence::Hint, &waiter, Conclusion::Unknown),
            // Our own key is checked first: without it, we can hold nothing.
            (looked(false, Fate::There, true), &holder, Conclusion::Evicted),
            (looked(false, Fate::Gone, true), &holder, Conclusion::Evicted),
            (looked(false, Fate::Released, true), &waiter, Conclusion::Evicted),
            (looked(true, Fate::There, true), &holder, Conclusion::Waits),
            (looked(true, Fate::There, false), &waiter, Conclusion::Waits),
            // A key that is gone counts only if it was seen with no entry in front of it.
            (looked(true, Fate::Gone, true), &holder, Conclusion::First),
            (looked(true, Fate::Gone, false), &holder, Conclusion::Unknown),
            (looked(true, Fate::Gone, true), &waiter, Conclusion::Unknown),
            (looked(true, Fate::Gone, false), &waiter, Conclusion::Unknown),
            // The deleting transaction shows that the key belonged to a holder.
            (looked(true, Fate::Released, false), &waiter, Conclusion::First),
        ] {
            let what = format!("{evidence:?} of {predecessor:?}");
            assert_eq!(conclude(evidence, predecessor), wanted, "{what}");
        }
    }
}
