//! A client that has joined the queue and does not hold the lock yet.

use std::{sync::Arc, time::Duration};

use super::{
    evidence::Evidence,
    mode::{Admission, Mode},
};
use crate::{
    backend::{Ask, Fate, Predecessor, Present, Watch, error::Result, name::Queue, signature},
    runtime::{
        self, Backoff,
        clock::{self, sleep},
    },
    session::{Session, own_key::OwnKey, watch_budget::NO_ROOM},
    telemetry,
};

/// The longest queue whose values are read. On ZooKeeper, each value costs a request. For a longer
/// queue, the log shows key names.
const FEW: usize = 16;

/// The minimum interval between two reads of a queue for the log, per session.
const LOOKS: Duration = Duration::from_secs(1);

/// A client that has joined the queue and does not hold the lock yet.
pub(super) struct Waiter<'a> {
    pub(super) session: &'a Session,
    pub(super) queue: &'a Queue,
    pub(super) own: &'a Arc<OwnKey>,
    pub(super) mode: Mode<'a>,
}

impl Waiter<'_> {
    /// Reads the waiter's place in the queue.
    pub(super) fn look(&self) -> impl Future<Output = Result<Admission>> {
        // Boxed, because thousands of clients may wait and this future is rarely needed.
        Box::pin(async { Ok(self.look_and_watch(false).await?.0) })
    }

    async fn look_and_watch(&self, watch: bool) -> Result<(Admission, Option<Watch>)> {
        self.mode.look(self.session, self.queue, self.own, watch).await
    }

    /// Checks for a change that no watch has reported.
    pub(super) async fn recheck(&self, predecessor: &Predecessor) -> Result<Option<Evidence>> {
        if self.mode.is_exclusive() || self.session.facts.renames_relabelled {
            let store = &self.session.store;
            let (own, ahead) = (&self.own.entry, &predecessor.entry);
            let present = self.session.ask(|| store.present_now(own, ahead)).await?;
            return Ok(match present {
                Present { own: true, ahead: Fate::There } => None,
                // A rule judges all entries ahead, and this read shows only one of them.
                Present { own: true, .. } if !self.mode.is_exclusive() => Some(Evidence::Hint),
                present => Some(Evidence::Looked { present, seen: predecessor.seen }),
            });
        }
        match self.look().await? {
            Admission::Behind(now) if now.entry.key == predecessor.entry.key => Ok(None),
            _ => Ok(Some(Evidence::Hint)),
        }
    }

    /// Reads both keys, if that can prove more than reading the queue.
    pub(super) async fn look_at_both(
        &self,
        predecessor: &Predecessor,
        seen: bool,
    ) -> Result<Evidence> {
        let store = &self.session.store;
        let (own, ahead) = (&self.own.entry, &predecessor.entry);
        if self.mode.is_exclusive() && (predecessor.first && seen || store.marks_releases(ahead)) {
            let present = self.session.ask(|| store.present(own, ahead)).await?;
            return Ok(Evidence::Looked { present, seen });
        }
        Ok(Evidence::Hint)
    }

    /// Waits until the queue has changed enough, and returns the new admission.
    ///
    /// Without room for a watch, it reads the queue about every second.
    pub(super) async fn wait_for_room(&self) -> Result<Admission> {
        let (mut backoff, dir) = (Backoff::default(), self.queue.shared_dir());
        loop {
            let room = self.session.watch_budget.watch(self.queue.dir(), &dir);
            // The watch starts with the list, so it reports every later change.
            let (standing, watch) = self.look_and_watch(room.is_some()).await?;
            if !matches!(standing, Admission::Full) {
                return Ok(standing);
            }
            let changed = async {
                match watch {
                    Some(watch) => watch.await.is_ok(),
                    None if room.is_none() => {
                        sleep(runtime::jittered(NO_ROOM)).await;
                        true
                    }
                    None => false,
                }
            };
            // A change ends the wait even while the queue is read for the log.
            let recheck = async {
                sleep(self.session.recheck()).await;
                Box::pin(self.tell_slow()).await;
            };
            tokio::select! {
                biased;
                changed = changed => if changed { backoff = Backoff::default() } else {
                    backoff.pause().await;
                },
                () = recheck => {}
            }
        }
    }

    /// Logs the holder and the number of entries ahead of a slow waiter.
    ///
    /// A waiter is slow once it has waited for one recheck interval. Nothing is read unless the log
    /// level is enabled, and nothing is logged if the store does not reply.
    pub(super) async fn tell_slow(&self) {
        // Thousands of waiters must not all read the queue at the same time.
        if !telemetry::wants_slow() || !self.session.slow_waits.is_due(LOOKS) {
            return;
        }
        let store = &self.session.store;
        let Ok(mut listing) = store.list(self.queue, Ask::default()).await else { return };
        let own = &self.own.entry.key;
        let mut place = listing.members.iter().position(|member| member.entry.key == *own);
        let queue = self.queue.of_holders();
        if queue != *self.queue {
            let Ok(read) = store.list(&queue, Ask::default()).await else { return };
            listing = read;
            // The first waiter is in both queues.
            place = place.map(|place| (listing.members.len() + place).saturating_sub(1));
        }
        if listing.members.len() <= FEW {
            let ask = Ask { values: true, ..Ask::default() };
            let Ok(read) = store.list(&queue, ask).await else { return };
            listing = read;
        }
        let Some(first) = listing.members.into_iter().next() else { return };
        let holder = match first.detail {
            Some(detail) => signature::read_in(&queue, &detail.value).0,
            None => first.entry.key.to_string(),
        };
        let waited = clock::now().saturating_sub(self.own.sent);
        telemetry::slow_wait(self.queue.name(), waited, place, &holder, first.entry.token);
    }
}

#[cfg(test)]
mod tests;
