//! Follows the changes of a queue in one session.

use std::future::pending;

use super::{outage::Outage, snapshot::Snapshot};
use crate::{
    backend::{Ask, Entry, Event, Watch, error::StoreError, name::Queue},
    lost::LostReason,
    runtime::{self, Backoff, clock::sleep},
    session::{Session, watch_budget::NO_ROOM},
};

/// How often a read tries to watch the first entry, which may be removed before its watch starts.
const TRIES: u32 = 6;

/// Reads a queue repeatedly, in one session at a time.
pub(crate) struct View {
    pub(super) queue: Queue,
    /// The value of the first entry may change.
    values_change: bool,
    watches: Watches,
    seen: Option<Snapshot>,
    /// For reads that failed or found no change.
    backoff: Backoff,
    outage: Outage,
}

/// The watches that the last read started in its session.
#[derive(Default)]
struct Watches {
    list: Option<Watch>,
    first: Option<(Entry, Watch)>,
    /// The first entry, whose value was written since the last read.
    touched: Option<Entry>,
    /// No change is known since the last read.
    current: bool,
}

impl View {
    pub(crate) fn new(queue: Queue, values_change: bool) -> Self {
        let (watches, backoff) = (Watches::default(), Backoff::default());
        Self { queue, values_change, watches, seen: None, backoff, outage: Outage::default() }
    }

    /// Returns the handle that reports how long the reads have failed.
    pub(super) fn outage(&self) -> Outage {
        self.outage.clone()
    }

    /// Returns the queue: at first at once, later after each change.
    ///
    /// An error means that the session has ended. `watch`: the session has room for the watches.
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
            // The read brought nothing new. Pause, so that a store that keeps doing this causes no
            // busy loop.
            if !rechecks || !self.watches.current {
                self.backoff.pause().await;
            }
        }
    }

    /// Waits for a possible change since the last read.
    ///
    /// Returns `true` if no change is known and a recheck is due.
    async fn rechecks(&mut self, session: &Session, watch: bool) -> bool {
        let watches = &mut self.watches;
        if !std::mem::take(&mut watches.current) {
            return false;
        }
        // Servers do lose watch events: see `queue/lock.rs`.
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

    /// Reads the queue.
    ///
    /// The watches start before the values are read, so they report every later change. If the
    /// first entry cannot be watched, the read does not count as current, and the queue is read
    /// again soon.
    async fn look(&mut self, session: &Session, watch: bool) -> Result<Snapshot, StoreError> {
        let (store, watches) = (&session.store, &mut self.watches);
        let (mut backoff, mut tries) = (Backoff::default(), 0);
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
            if tries == TRIES {
                // Another library's key may have a name by which it cannot be watched.
                return Ok(listing.into());
            }
            let first = first.clone();
            watches.first = store.watch(&first, true).await?.map(|watch| (first, watch));
            if watches.first.is_none() {
                // The first entry was removed a moment ago.
                tries += 1;
                backoff.pause().await;
            }
        }
    }
}

/// Returns the event of a watch; without a watch, it never returns.
async fn event(watch: Option<&mut Watch>) -> Result<Event, StoreError> {
    match watch {
        Some(watch) => watch.await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests;
