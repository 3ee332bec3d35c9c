//! Looking into a queue: once, or for as long as somebody wants to know.

use std::{
    fmt,
    future::{self, pending, poll_fn},
    task::{Context, Poll, ready},
};

use futures_util::stream::{BoxStream, StreamExt, unfold};

use super::failure::StaleSessions;
use crate::{
    backend::{Ask, Entry, Event, Listing, Member, Watch, error::StoreError, name::Queue},
    error::{Error, Result},
    lost::LostReason,
    runtime::{
        self, Backoff, Runtime,
        clock::{Instant, sleep},
        mutex::Mutex,
    },
    session::watch_budget::NO_ROOM,
    session::{Session, Sessions, Visit},
};

/// All who stand in a queue, the first one first, as it is now. Gives up after about twice the
/// request timeout.
pub(crate) async fn look(sessions: &Sessions, queue: &Queue, values: bool) -> Result<Listing> {
    let ask = Ask { values, watch: false, fresh: true };
    let (mut stale, mut give_up) = (StaleSessions::default(), None);
    loop {
        let session = sessions.any().await?;
        let patience = session.shared.patience();
        let give_up = *give_up.get_or_insert_with(|| Instant::now() + patience);
        let again = |error: &StoreError, _| error.is_transient() && Instant::now() < give_up;
        let (listing, _) = session.ask_while(again, || session.store.list(queue, ask)).await;
        match listing {
            Ok(listing) => return Ok(listing),
            Err(StoreError::SessionGone(reason))
                if reason != LostReason::ClientClosed && stale.another() => {}
            Err(error) => return Err(session.public(error)),
        }
    }
}

/// What was seen of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Those who stand in it, the first one first.
    pub(crate) members: Vec<Member>,
    /// The names of keys that belong to no session.
    pub(crate) notes: Vec<Box<str>>,
}

impl From<Listing> for Snapshot {
    fn from(Listing { members, notes, .. }: Listing) -> Self {
        Self { members, notes }
    }
}

/// Looks at a queue again and again, in one session at a time.
pub(crate) struct View {
    queue: Queue,
    /// The first one's value may change.
    values_change: bool,
    watches: Watches,
    seen: Option<Snapshot>,
    /// For looks in vain.
    backoff: Backoff,
}

/// What the last look began, in its session.
#[derive(Default)]
struct Watches {
    list: Option<Watch>,
    first: Option<(Entry, Watch)>,
    /// The one that was first, which was written to.
    touched: Option<Entry>,
    /// Nothing is known to have happened since the last look.
    current: bool,
}

impl View {
    pub(crate) fn new(queue: Queue, values_change: bool) -> Self {
        let (watches, backoff) = (Watches::default(), Backoff::default());
        Self { queue, values_change, watches, seen: None, backoff }
    }

    /// Who stands in the queue: at once at first, and then when that has changed. An error: the
    /// session is over. `watch`: there is room for that.
    pub(crate) async fn next(
        &mut self,
        session: &Session,
        watch: bool,
    ) -> Result<Snapshot, LostReason> {
        let changed = tokio::select! {
            biased;
            reason = session.deadline.lost() => Err(reason),
            changed = self.changed(session, watch) => changed,
        };
        if changed.is_err() {
            self.watches = Watches::default();
        }
        changed
    }

    async fn changed(&mut self, session: &Session, watch: bool) -> Result<Snapshot, LostReason> {
        loop {
            let rechecks = self.rechecks(session, watch).await;
            match self.look(session, watch).await {
                Ok(snapshot) if self.seen.as_ref() == Some(&snapshot) => {}
                Ok(snapshot) => {
                    self.backoff = Backoff::default();
                    return Ok(self.seen.insert(snapshot).clone());
                }
                Err(StoreError::SessionGone(reason)) => {
                    session.deadline.lose(reason);
                    return Err(reason);
                }
                Err(_) => self.watches.current = false,
            }
            // In vain. Should the store go on like that, do not spin.
            if !rechecks || !self.watches.current {
                self.backoff.pause().await;
            }
        }
    }

    /// Waits until something may have happened since the last look; `true`: nothing is known to
    /// have, but it is time to look again.
    async fn rechecks(&mut self, session: &Session, watch: bool) -> bool {
        let watches = &mut self.watches;
        if !std::mem::take(&mut watches.current) {
            return false;
        }
        // Servers do lose watch events, see `queue/lock.rs`.
        let pause = if watch { session.recheck() } else { runtime::jittered(NO_ROOM) };
        let list = async {
            match &mut watches.list {
                Some(list) => list.await,
                None => pending().await,
            }
        };
        let first = async {
            match &mut watches.first {
                Some((_, first)) => first.await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = list => watches.list = None,
            event = first => {
                let touched = matches!(event, Ok(Event::Touched));
                watches.touched = watches.first.take().map(|(entry, _)| entry).filter(|_| touched);
            }
            () = sleep(pause) => return true,
        }
        false
    }

    /// A look at the queue. What happens from then on is told by the watches: they were there
    /// before the values were read.
    async fn look(&mut self, session: &Session, watch: bool) -> Result<Snapshot, StoreError> {
        let (store, watches) = (&session.store, &mut self.watches);
        let mut backoff = Backoff::default();
        if let Some(touched) = watches.touched.take() {
            watches.first = store.watch(&touched, true).await?.map(|watch| (touched, watch));
        }
        loop {
            let mut listing =
                store.list(&self.queue, Ask { values: true, watch, fresh: true }).await?;
            watches.list = listing.watch.take();
            let first = listing
                .members
                .first()
                .map(|member| &member.entry)
                .filter(|_| watch && self.values_change);
            let watched = watches.first.as_ref().map(|(entry, _)| entry);
            let Some(first) = first.filter(|first| watched != Some(first)) else {
                watches.current = true;
                return Ok(listing.into());
            };
            let first = first.clone();
            watches.first = store.watch(&first, true).await?.map(|watch| (first, watch));
            if watches.first.is_none() {
                // Gone a moment ago.
                backoff.pause().await;
            }
        }
    }
}

/// Looks at a queue for ever, in whatever session the client has.
struct QueueFollower {
    sessions: Sessions,
    visit: Option<Visit>,
    view: View,
    backoff: Backoff,
}

impl QueueFollower {
    /// Who stands in the queue, whenever that has changed; `None` when the client is closed.
    async fn next(&mut self) -> Option<Snapshot> {
        loop {
            let visit = match self.visit.take() {
                Some(visit) => Ok(visit),
                None => self.sessions.visit(&self.view.queue).await,
            };
            match visit {
                Ok(visit) => {
                    if let Ok(snapshot) = self.view.next(&visit.session, true).await {
                        self.visit = Some(visit);
                        self.backoff = Backoff::default();
                        return Some(snapshot);
                    }
                }
                Err(Error::Closed) => return None,
                Err(_) => {}
            }
            self.backoff.pause().await;
        }
    }
}

/// What a caller makes of a queue that it watches. Polled from any executor, it runs within the
/// library's runtime.
pub(crate) struct Feed<T> {
    runtime: Runtime,
    /// Until it has ended. Never locked: so it can be shared like everything else.
    items: Option<Mutex<BoxStream<'static, T>>>,
}

impl<T: Send + 'static> Feed<T> {
    /// `values_change`: the first one's matters. `pick`: what to tell of a change, if anything.
    pub(crate) fn new(
        sessions: &Sessions,
        queue: &Queue,
        values_change: bool,
        mut pick: impl FnMut(Snapshot) -> Option<T> + Send + 'static,
    ) -> Self {
        let (view, backoff) = (View::new(queue.clone(), values_change), Backoff::default());
        let follower = QueueFollower { sessions: sessions.clone(), visit: None, view, backoff };
        let snapshots = unfold(follower, |mut follower| async move {
            follower.next().await.map(|snapshot| (snapshot, follower))
        });
        let items = snapshots.filter_map(move |snapshot| future::ready(pick(snapshot))).boxed();
        Self { runtime: sessions.shared().runtime.clone(), items: Some(Mutex::new(items)) }
    }

    pub(crate) async fn next(&mut self) -> Option<T> {
        poll_fn(|context| self.poll_next(context)).await
    }

    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        let Some(items) = &mut self.items else { return Poll::Ready(None) };
        if self.runtime.check().is_err() {
            // In a forked child they are the parent's.
            std::mem::forget(self.items.take());
            return Poll::Ready(None);
        }
        let items = items.get_mut();
        let item = ready!(self.runtime.poll_within(|| items.poll_next_unpin(context)));
        if item.is_none() {
            self.items = None;
        }
        Poll::Ready(item)
    }
}

impl<T> fmt::Debug for Feed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}

/// One look at a queue, from any executor.
pub(crate) async fn look_now(sessions: &Sessions, queue: &Queue) -> Result<Snapshot> {
    Ok(sessions.shared().runtime.within(look(sessions, queue, true)).await?.into())
}

#[cfg(test)]
mod tests;
