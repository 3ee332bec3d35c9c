//! How a waiter learns that its predecessor's key has changed.

use std::{future::pending, sync::Arc};

use super::{evidence::Evidence, waiter::Waiter};
use crate::{
    backend::{Event, Predecessor, SequencePoint, Watched, error::Result},
    runtime::{self, clock::sleep},
    session::{
        own_key::{End, OwnKey},
        watch_budget::NO_ROOM,
    },
};

/// Waits for a possible change of the predecessor.
///
/// A predecessor in this session reports its own end, with one exception: an evicted waiter may
/// notice the eviction only at its next recheck. A reader could be granted earlier, so it also
/// watches the key of a waiting writer. A predecessor's key in another session is watched if there
/// is room for the watch. `there`: the predecessor's key existed at that sequence point.
pub(super) async fn watch_predecessor(
    waiter: &Waiter<'_>,
    predecessor: &Predecessor,
    there: Option<SequencePoint>,
) -> Result<Evidence> {
    let session = waiter.session;
    let Some(ahead) = session.own_keys.find_soon(&predecessor.entry).await else {
        return watch_key(waiter, predecessor, there).await;
    };
    let evicted = async {
        match waiter.mode.passes_readers() && ahead.is_waiting() {
            true => Box::pin(watch_key(waiter, predecessor, None)).await,
            false => pending().await,
        }
    };
    tokio::select! {
        biased;
        end = ahead.ended(waiter.own) => Ok(if waiter.mode.is_exclusive() {
            evidence_of(end, waiter.own, session.facts.follows_if_there)
        } else {
            Evidence::Hint
        }),
        evidence = evicted => evidence,
    }
}

/// Watches the predecessor's key.
///
/// If there is no room for a watch, this waits for a moment and returns a hint.
async fn watch_key(
    waiter: &Waiter<'_>,
    predecessor: &Predecessor,
    mut there: Option<SequencePoint>,
) -> Result<Evidence> {
    let (session, key) = (waiter.session, &predecessor.entry.key);
    let Some(_permit) = session.watch_budget.watch(waiter.queue.dir(), key) else {
        sleep(runtime::jittered(NO_ROOM)).await;
        return Ok(Evidence::Hint);
    };
    let mut seen = predecessor.seen;
    loop {
        let tells = waiter.mode.is_exclusive() && predecessor.first && seen;
        let own = tells.then_some(&waiter.own.entry);
        let watching = session.store.watch_ahead(&predecessor.entry, there.take(), own);
        let event = match watching.await {
            Ok(Watched::Begun(watch)) => {
                seen = true;
                watch.await
            }
            Ok(Watched::Since(watch)) => watch.await,
            Ok(Watched::Gone) => Ok(Event::Deleted),
            Ok(Watched::Over(present)) => return Ok(Evidence::Looked { present, seen }),
            Err(_) => return Ok(Evidence::Hint),
        };
        match event {
            // Start a new watch at once. That also shows whether the key still exists, and misses
            // no later event. The cost is one read for each write to the key.
            Ok(Event::Touched) => {}
            Ok(Event::Deleted) => return Box::pin(waiter.look_at_both(predecessor, seen)).await,
            Err(_) => return Ok(Evidence::Hint),
        }
    }
}

/// Returns what the end of an own key proves to the waiter behind it.
///
/// `follows_if_there`: see [`Facts`](crate::backend::Facts).
fn evidence_of(end: End, own: &Arc<OwnKey>, follows_if_there: bool) -> Evidence {
    match end {
        End::Passed { successor, there, .. }
            if successor.upgrade().is_some_and(|successor| Arc::ptr_eq(&successor, own)) =>
        {
            if there { Evidence::Inherited } else { Evidence::Hint }
        }
        // Our key joined while that key was being deleted. An operator may have evicted our key in
        // between, unless the store shows that it still existed.
        End::Passed { at, .. } if follows_if_there && at.follows(own.joined) => Evidence::Inherited,
        End::Left { at, predecessor } if at > own.joined => Evidence::Withdrawn(predecessor),
        _ => Evidence::Hint,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use super::*;
    use crate::{
        backend::Entry,
        queue::evidence::{Conclusion, conclude},
        runtime::clock,
        session::own_keys::OwnKeys,
    };

    /// Returns a key of this session that joined at this sequence point.
    fn own(joined: u64) -> Arc<OwnKey> {
        let entry = Entry { key: "own".into(), revision: joined, token: joined, crowded: false };
        OwnKeys::default().add(entry, SequencePoint(joined), clock::now(), false)
    }

    #[test]
    fn end_of_own_predecessor_grants_only_if_proven() {
        let next = || {
            let entry = Entry { key: "next".into(), revision: 1, token: 1, crowded: false };
            Predecessor { entry, first: true, seen: true }
        };
        let passed = |at, successor, there| End::Passed { at: SequencePoint(at), successor, there };
        let left = |at| End::Left { at: SequencePoint(at), predecessor: next() };
        let (own, other) = (own(5), own(5));
        let known = || Arc::downgrade(&own);
        for (end, follows_if_there, wanted) in [
            // The transaction that deleted the key shows whether its successor's key existed.
            (passed(9, known(), true), false, Conclusion::First),
            (passed(6, known(), false), true, Conclusion::Unknown),
            // It proves nothing about other keys, such as one that an operator has evicted since.
            (passed(9, Arc::downgrade(&other), true), true, Conclusion::Unknown),
            (passed(9, Weak::new(), true), true, Conclusion::Unknown),
            (passed(6, Weak::new(), false), false, Conclusion::Unknown),
            // Our key existed at the deletion.
            (passed(6, Weak::new(), false), true, Conclusion::First),
            (passed(7, Weak::new(), false), true, Conclusion::Unknown),
            // A client that joined later has another predecessor.
            (passed(5, Weak::new(), false), true, Conclusion::Unknown),
            (passed(4, Weak::new(), false), true, Conclusion::Unknown),
            (left(6), false, Conclusion::Behind(next())),
            (left(5), false, Conclusion::Unknown),
            (left(4), false, Conclusion::Unknown),
            (End::Unclear, true, Conclusion::Unknown),
        ] {
            let what = format!("{end:?}, {follows_if_there}");
            let evidence = evidence_of(end, &own, follows_if_there);
            assert_eq!(conclude(evidence, &next()), wanted, "{what}");
        }
    }
}
