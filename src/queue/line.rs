//! Queues in which several may be in at once: who stands in the line, and who of them is in, is
//! told by a rule that looks at all who are ahead.
//!
//! The order is the same as a mutex's, by the store's own count; nobody can join in front. What a
//! rule sees of those ahead can only get less: keys go, none comes, and a label changes only to one
//! that lets more in (a writer that becomes a reader). So whoever is in stays in, whatever happens
//! behind (a note may make room for fewer, but is not for those who are in), and a list that is a
//! little old errs on the side of waiting. A list in which one's own key is missing is the word
//! that it is gone.

use std::{pin::pin, sync::Arc};

use tokio::time::{Instant, sleep, timeout};

use crate::{
    backend::{Ask, Entry, Event, Join, Listing, Member, error::StoreError, name::Queue},
    error::Error,
    queue::{
        self, CALM, COURTESY, Failure, Hold, NO_ROOM, Wait,
        attempt::{Attempt, Entered},
        in_time, persist,
    },
    runtime::backoff,
    session::{Session, deadline::Grant, own_keys::OwnKey},
};

/// Who may be in with whom.
pub(crate) trait Rule: Send + Sync {
    /// Decides about one who has these ahead, the first one first; `notes` are what was left for
    /// all who stand in the queue.
    fn judge(&self, ahead: &[Member], notes: &[Box<str>]) -> Verdict;
}

/// What a rule says.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It is in.
    In,
    /// Not before this one is gone.
    Behind(Entry),
    /// Not before some of those ahead are gone, whichever.
    Full,
    /// Never.
    Refused(Error),
}

/// Where one stands.
enum Stand {
    Judged(Verdict),
    /// Its key is not there any more.
    Evicted,
}

/// Stands in the line until the rule lets it in. May be dropped at any await: the attempt gives
/// back what was written.
pub(crate) async fn enter(
    attempt: Attempt,
    wait: Wait,
    rule: &dyn Rule,
) -> Result<Option<Hold>, Failure> {
    let session = Arc::clone(attempt.session());
    if matches!(wait, Wait::No) {
        // Busy as it is, nothing is written.
        let ask = Ask { fresh: true, ..Ask::default() };
        let patience = session.shared().request_timeout * 2;
        let look = timeout(patience, persist(|| session.store().list(attempt.queue(), ask))).await;
        let look = look.unwrap_or_else(|late| Err(StoreError::Unknown(late.into())));
        let listing = look.map_err(|error| queue::failed(&session, error))?;
        match rule.judge(&listing.members, &listing.notes) {
            Verdict::In => {}
            Verdict::Behind(_) | Verdict::Full => return Ok(None),
            Verdict::Refused(error) => return Err(error.into()),
        }
    }
    let Some(Entered { mut attempt, alone, .. }) = queue::join(attempt, wait, Join::Always).await?
    else {
        return Ok(None);
    };
    let Some(own) = attempt.own_key().map(Arc::clone) else { return Ok(None) };
    let queue = attempt.queue().clone();
    let look = || async { Ok(stand(rule, &own, &list(&session, &queue, false).await?)) };

    let mut next = if alone {
        Some(Stand::Judged(rule.judge(&[], &[])))
    } else {
        in_time(&session, wait, look()).await?
    };
    while let Some(stand) = next {
        next = match stand {
            Stand::Evicted => return Err(Error::Evicted { name: queue.name().to_owned() }.into()),
            Stand::Judged(Verdict::Refused(error)) => {
                attempt.release_within(COURTESY).await;
                return Err(error.into());
            }
            Stand::Judged(Verdict::In) => match attempt.grant() {
                Grant::Granted => return Ok(Some(Hold::new(attempt, own))),
                Grant::Lost(reason) => return Err(session.lost_error(reason).into()),
                Grant::Stale => {
                    let proof = async { persist(|| session.prove()).await };
                    let Some(()) = in_time(&session, wait, proof).await? else { break };
                    in_time(&session, wait, look()).await?
                }
            },
            Stand::Judged(_) if matches!(wait, Wait::No) => None,
            Stand::Judged(Verdict::Behind(ahead)) => {
                in_time(&session, wait, behind(&session, &queue, rule, &own, ahead)).await?
            }
            Stand::Judged(Verdict::Full) => {
                in_time(&session, wait, full(&session, &queue, rule, &own)).await?
            }
        };
    }
    attempt.release_within(COURTESY).await;
    Ok(None)
}

async fn list(session: &Session, queue: &Queue, watch: bool) -> Result<Listing, StoreError> {
    persist(|| session.store().list(queue, Ask { watch, ..Ask::default() })).await
}

fn stand(rule: &dyn Rule, own: &OwnKey, listing: &Listing) -> Stand {
    match listing.members.iter().position(|member| member.entry.key == own.entry.key) {
        Some(position) => Stand::Judged(rule.judge(&listing.members[..position], &listing.notes)),
        None => Stand::Evicted,
    }
}

/// Waits until the one ahead is gone; tells where one stands then.
async fn behind(
    session: &Session,
    queue: &Queue,
    rule: &dyn Rule,
    own: &Arc<OwnKey>,
    ahead: Entry,
) -> Result<Stand, StoreError> {
    let mut idle_wakes = 0;
    loop {
        let began = Instant::now();
        let mut gone = pin!(gone(session, queue, own, &ahead));
        let listing = loop {
            tokio::select! {
                () = &mut gone => break list(session, queue, false).await?,
                // Servers do lose watch events, see `queue.rs`. The watch stays meanwhile.
                () = sleep(session.recheck()) => {}
            }
            let listing = list(session, queue, false).await?;
            match stand(rule, own, &listing) {
                Stand::Judged(Verdict::Behind(now)) if now.key == ahead.key => {}
                _ => break listing,
            }
        };
        match stand(rule, own, &listing) {
            Stand::Judged(Verdict::Behind(now)) if now.key == ahead.key => {}
            stand => return Ok(stand),
        }
        // Woken for nothing. Should the store go on like that at once, do not spin.
        idle_wakes = if began.elapsed() > CALM { 0 } else { idle_wakes + 1 };
        if idle_wakes > 1 {
            sleep(backoff(idle_wakes - 2)).await;
        }
    }
}

/// Returns when the key may be gone.
async fn gone(session: &Session, queue: &Queue, own: &Arc<OwnKey>, ahead: &Entry) {
    if let Some(own_key) = session.own_keys().find_soon(ahead).await {
        own_key.ended(own).await;
        return;
    }
    let Some(_leave) = session.watch_budget().watch(queue.dir(), &ahead.key) else {
        return sleep(NO_ROOM.mul_f64(0.5 + fastrand::f64())).await;
    };
    while let Ok(Some(watch)) = session.store().watch(ahead, true).await {
        // What was only written to is watched anew at once.
        if !matches!(watch.await, Ok(Event::Touched)) {
            return;
        }
    }
}

/// Waits until the queue has changed in such a way that it matters; tells where one stands then.
async fn full(
    session: &Session,
    queue: &Queue,
    rule: &dyn Rule,
    own: &Arc<OwnKey>,
) -> Result<Stand, StoreError> {
    let mut failures = 0;
    loop {
        // The watch begins with the list: whatever happens after it is told.
        let listing = list(session, queue, true).await?;
        match stand(rule, own, &listing) {
            Stand::Judged(Verdict::Full) => {}
            stand => return Ok(stand),
        }
        let changed = async {
            match listing.watch {
                Some(watch) => watch.await.is_ok(),
                None => false,
            }
        };
        tokio::select! {
            changed = changed => if changed { failures = 0 } else {
                sleep(backoff(failures)).await;
                failures += 1;
            },
            () = sleep(session.recheck()) => {}
        }
    }
}
