//! What a waiter knows when it wakes up, and what follows from that.
//!
//! A wake-up is a reason to look, and no grant: the key ahead may have been a waiter's that gave
//! up, while others are still in front of it.

use crate::backend::{Fate, Predecessor, Present};

/// What is known at a wake-up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// The key ahead was that of a holder of this session, which deleted it; ours was there in the
    /// same transaction.
    Inherited,
    /// A look at both keys. `seen`: the key ahead was found in front of ours after we joined.
    Looked { present: Present, seen: bool },
    /// The key ahead was that of a waiter of this session, which deleted it. It stood behind this
    /// one.
    Withdrawn(Predecessor),
    /// Something may have happened to the key ahead.
    Hint,
}

/// What follows from it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Conclusion {
    /// Nobody is in front of our key.
    First,
    /// Our key is gone.
    Evicted,
    /// The predecessor is still there.
    Waits,
    /// This is the predecessor now.
    Behind(Predecessor),
    /// The queue has to tell.
    Unknown,
}

/// Draws the conclusion. A key that is gone shows nothing of those that were in front of it,
/// unless it is known that there were none.
pub(crate) fn conclude(evidence: Evidence, predecessor: &Predecessor) -> Conclusion {
    match evidence {
        // A holder has nobody in front of it, and nobody was between it and us: its session told
        // us of it as our predecessor. Nobody can join there, as keys are only added at the end.
        Evidence::Inherited => Conclusion::First,
        // One who waited behind another has gone: nobody stood between those two, nor between it
        // and us.
        Evidence::Withdrawn(next) => Conclusion::Behind(next),
        Evidence::Looked { present: Present { own: false, .. }, .. } => Conclusion::Evicted,
        Evidence::Looked { present: Present { ahead: Fate::There, .. }, .. } => Conclusion::Waits,
        // It was a holder's, so nobody was in front of it. It was the nearest one to ours: nobody
        // stood between, and nobody can join there.
        Evidence::Looked { present: Present { ahead: Fate::Released, .. }, .. } => {
            Conclusion::First
        }
        // It was seen in front of ours, with nobody in front of itself; nobody can join there.
        Evidence::Looked { present: Present { ahead: Fate::Gone, .. }, seen: true }
            if predecessor.first =>
        {
            Conclusion::First
        }
        // Others may be in front of it; or it was never seen, and was not the nearest one.
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
    fn what_is_known_decides() {
        let (holder, waiter) = (behind("holder", true), behind("waiter", false));
        let next = || behind("next", false);
        for (evidence, predecessor, wanted) in [
            // The transaction of this session's holder decides, whatever was known before.
            (Evidence::Inherited, &waiter, Conclusion::First),
            (Evidence::Withdrawn(next()), &waiter, Conclusion::Behind(next())),
            (Evidence::Hint, &holder, Conclusion::Unknown),
            (Evidence::Hint, &waiter, Conclusion::Unknown),
            // Our own key comes first: without it nothing is ours.
            (looked(false, Fate::There, true), &holder, Conclusion::Evicted),
            (looked(false, Fate::Gone, true), &holder, Conclusion::Evicted),
            (looked(false, Fate::Released, true), &waiter, Conclusion::Evicted),
            (looked(true, Fate::There, true), &holder, Conclusion::Waits),
            (looked(true, Fate::There, false), &waiter, Conclusion::Waits),
            // Gone: only that of one that was seen with nobody in front of it.
            (looked(true, Fate::Gone, true), &holder, Conclusion::First),
            (looked(true, Fate::Gone, false), &holder, Conclusion::Unknown),
            (looked(true, Fate::Gone, true), &waiter, Conclusion::Unknown),
            (looked(true, Fate::Gone, false), &waiter, Conclusion::Unknown),
            // The deleting transaction says that it was a holder's.
            (looked(true, Fate::Released, false), &waiter, Conclusion::First),
        ] {
            let what = format!("{evidence:?} of {predecessor:?}");
            assert_eq!(conclude(evidence, predecessor), wanted, "{what}");
        }
    }
}
