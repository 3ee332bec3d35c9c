//! A lock that is held.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use super::{
    attempt::Attempt,
    release::{self, Release, Trouble},
};
use crate::{
    runtime::clock::{self, sleep},
    session::own_key::OwnKey,
    telemetry::Handle,
};

/// A lock that is held.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) attempt: Attempt,
    pub(crate) own: Arc<OwnKey>,
    /// When the request was sent that was granted, or when a waiter learnt of its turn.
    pub(crate) since: Duration,
}

/// Lets a lock be held no longer than until then, whatever becomes of the work under it: its guard
/// is lost at that time by the clock, and then the key is deleted by a task of the client's own.
/// The attempt still gives back all else when its guard is dropped.
pub(crate) fn hold_until(attempt: &Attempt, own: &Arc<OwnKey>, until: Duration) {
    own.hold_until(until);
    let (session, own) = (Arc::clone(&attempt.session), Arc::clone(own));
    let (queue, ticket) = (attempt.queue.clone(), attempt.ticket);
    let runtime = session.shared.runtime.clone();
    runtime.spawn(async move {
        loop {
            let left = until.saturating_sub(clock::now());
            if left.is_zero() {
                break;
            }
            tokio::select! {
                biased;
                () = own.left() => return,
                () = sleep(left) => {}
            }
        }
        if !own.expire() {
            return;
        }
        session.deadline.leave();
        let progress = watch::Sender::new(Release::Trying(None));
        let trouble = Trouble { progress, account: Handle::default() };
        release::release(&session, &queue, ticket, Some(&own), true, &trouble).await;
        if own.repeats {
            // A request to join may yet put the key again.
            session.claims.doubt();
        }
    });
}
