//! One that has joined, and is not in.

use std::sync::Arc;

use super::{
    evidence::Evidence,
    mode::{Admission, Mode},
};
use crate::{
    backend::{Fate, Predecessor, Present, Watch, error::Result, name::Queue},
    runtime::{Backoff, clock::sleep},
    session::{Session, own_keys::OwnKey},
};

/// One that has joined, and is not in.
pub(super) struct Waiter<'a> {
    pub(super) session: &'a Session,
    pub(super) queue: &'a Queue,
    pub(super) own: &'a Arc<OwnKey>,
    pub(super) mode: Mode<'a>,
}

impl Waiter<'_> {
    /// Where it stands.
    pub(super) fn look(&self) -> impl Future<Output = Result<Admission>> {
        // What is seldom needed is on the heap: thousands may wait, and their futures are small.
        Box::pin(async { Ok(self.look_and_watch(false).await?.0) })
    }

    async fn look_and_watch(&self, watch: bool) -> Result<(Admission, Option<Watch>)> {
        self.mode.look(self.session, self.queue, self.own, watch).await
    }

    /// What has changed without a word, if anything.
    pub(super) async fn recheck(&self, predecessor: &Predecessor) -> Result<Option<Evidence>> {
        if self.mode.is_exclusive() || self.session.renames_relabelled() {
            let store = self.session.store();
            let (own, ahead) = (&self.own.entry, &predecessor.entry);
            let present = self.session.ask(|| store.present_now(own, ahead)).await?;
            return Ok(match present {
                Present { own: true, ahead: Fate::There } => None,
                // A rule judges all that are ahead, and this shows one of them.
                Present { own: true, .. } if !self.mode.is_exclusive() => Some(Evidence::Hint),
                present => Some(Evidence::Looked { present, seen: predecessor.seen }),
            });
        }
        match self.look().await? {
            Admission::Behind(now) if now.entry.key == predecessor.entry.key => Ok(None),
            _ => Ok(Some(Evidence::Hint)),
        }
    }

    /// What there is of both keys, if a look at them can tell more than the queue.
    pub(super) async fn look_at_both(
        &self,
        predecessor: &Predecessor,
        seen: bool,
    ) -> Result<Evidence> {
        let tells = self.session.store().tells_releases(&predecessor.entry);
        if self.mode.is_exclusive() && (predecessor.first && seen || tells) {
            let present = self.session.ask(|| self.present(predecessor)).await?;
            return Ok(Evidence::Looked { present, seen });
        }
        Ok(Evidence::Hint)
    }

    pub(super) fn present<'a>(
        &'a self,
        predecessor: &'a Predecessor,
    ) -> impl Future<Output = Result<Present>> + 'a {
        self.session.store().present(&self.own.entry, &predecessor.entry)
    }

    /// Waits until the queue has changed in such a way that it matters; tells where the waiter
    /// stands then.
    pub(super) async fn wait_for_room(&self) -> Result<Admission> {
        let mut backoff = Backoff::default();
        loop {
            // The watch begins with the list: whatever happens after it is told.
            let (standing, watch) = self.look_and_watch(true).await?;
            if !matches!(standing, Admission::Full) {
                return Ok(standing);
            }
            let changed = async {
                match watch {
                    Some(watch) => watch.await.is_ok(),
                    None => false,
                }
            };
            tokio::select! {
                biased;
                changed = changed => if changed { backoff = Backoff::default() } else {
                    backoff.pause().await;
                },
                () = sleep(self.session.recheck()) => self.tell_slow().await,
            }
        }
    }
}

#[cfg(test)]
mod tests;
