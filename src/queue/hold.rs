//! A lock that is held.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use super::{
    attempt::Attempt,
    release::{self, Release, Trouble},
    time_limit::reached,
};
use crate::session::own_key::OwnKey;

#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) attempt: Attempt,
    pub(crate) own: Arc<OwnKey>,
    /// When the granted request was sent, or when a waiter learned of its turn.
    pub(crate) since: Duration,
}

/// Limits a hold to end at `until`, even if its work is not finished.
///
/// At that time the guard is lost by the local clock, and then a background task deletes the key.
/// The attempt still cleans up everything else when its guard is dropped.
pub(crate) fn hold_until(attempt: &Attempt, own: &Arc<OwnKey>, until: Duration) {
    own.hold_until(until);
    let (session, own) = (Arc::clone(&attempt.session), Arc::clone(own));
    let (queue, ticket) = (attempt.queue.clone(), attempt.ticket);
    let account = attempt.account.handle();
    let runtime = session.shared.runtime.clone();
    runtime.spawn(async move {
        tokio::select! {
            biased;
            () = own.left() => return,
            () = reached(until) => {}
        }
        if !own.expire() {
            return;
        }
        session.deadline.leave();
        let progress = watch::Sender::new(Release::Trying(None));
        let trouble = Trouble { progress, account };
        release::release(&session, &queue, ticket, Some(&own), true, &trouble).await;
        session.deadline.released();
        if own.repeats {
            // A join request may still create the key again.
            session.claims.doubt();
        }
    });
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::{
        backend::{Entry, Join, Joined, LeaveOutcome, SequencePoint, Standing, name::Queue},
        lost::LostReason,
        runtime::clock,
        session::fake_store::FakeStore,
    };

    /// When a hold expires just as a downgrade begins, only one of the two ends it.
    #[tokio::test(start_paused = true)]
    async fn expired_key_is_not_replaced() {
        let store = FakeStore::new();
        let entry = |number| Entry::new("/ns/a/1", number);
        store.enqueue.then(0, move || {
            let (standing, at) = (Standing::First, SequencePoint(1));
            Ok(Joined::Queued { entry: entry(1), standing, at, alive: None, alone: true })
        });
        store.relabel.then(0, move || Ok(Some(entry(2))));
        let left = LeaveOutcome { existed: true, successor: false, at: SequencePoint(2) };
        store.leave.then(0, move || Ok(left));
        let session = store.session().await;
        let attempt = Attempt::in_session(&session, &Queue::new("/ns", "a").unwrap()).unwrap();
        let (interest, _interested) = oneshot::channel();
        let joined = attempt.join(Join::Always, None, interest).await.unwrap();
        let mut attempt = joined.unwrap().attempt;
        attempt.grant().unwrap();
        let own = Arc::clone(attempt.own_key().unwrap());
        hold_until(&attempt, &own, clock::now());
        own.left().await;
        let attempt = attempt.relabel("r", b"").await.unwrap();
        drop(attempt.release_within(Duration::from_secs(1)).await);
        assert!(!session.deadline.vitals().busy, "all counts are even");
        assert!(store.asked("relabel").is_empty());
        assert_eq!(own.lost_reason(), Some(LostReason::HeldTooLong));
    }
}
