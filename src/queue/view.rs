//! Looking into a queue for as long as somebody wants to know, in one session.

use std::future::pending;

use super::{outage::Outage, snapshot::Snapshot};
use crate::{
    backend::{Ask, Entry, Event, Watch, error::StoreError, name::Queue},
    lost::LostReason,
    runtime::{self, Backoff, clock::sleep},
    session::{Session, watch_budget::NO_ROOM},
};

/// Looks at a queue again and again, in one session at a time.
pub(crate) struct View {
    pub(super) queue: Queue,
    /// The first one's value may change.
    values_change: bool,
    watches: Watches,
    seen: Option<Snapshot>,
    /// For looks in vain.
    backoff: Backoff,
    outage: Outage,
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
        Self { queue, values_change, watches, seen: None, backoff, outage: Outage::default() }
    }

    /// Returns what knows whether its looks fail.
    pub(super) fn outage(&self) -> Outage {
        self.outage.clone()
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
            self.outage.begin();
            self.watches = Watches::default();
        }
        changed
    }

    async fn changed(&mut self, session: &Session, watch: bool) -> Result<Snapshot, LostReason> {
        loop {
            let rechecks = self.rechecks(session, watch).await;
            let looked = self.look(session, watch).await;
            match &looked {
                Ok(_) => self.outage.end(),
                Err(_) => self.outage.begin(),
            }
            match looked {
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
        let list = event(watches.list.as_mut());
        let first = event(watches.first.as_mut().map(|(_, first)| first));
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
            let mut listing = store
                .list(&self.queue, Ask { values: true, watch, fresh: true, ..Ask::default() })
                .await?;
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

/// Returns what a watch reports; never returns without one.
async fn event(watch: Option<&mut Watch>) -> Result<Event, StoreError> {
    match watch {
        Some(watch) => watch.await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests;
