//! A stream of a queue's changes, for as long as the client is open.

use std::{
    fmt,
    future::{poll_fn, ready},
    mem,
    task::{self, Context, Poll},
    time::Duration,
};

use futures_util::stream::{BoxStream, StreamExt, unfold};

use super::{outage::Outage, snapshot::Snapshot, view::View};
use crate::{
    backend::name::Queue,
    error::Error,
    runtime::{Backoff, Runtime, mutex::Mutex},
    session::{Sessions, Visit},
};

/// Follows a queue indefinitely, in any session of the client.
struct QueueFollower {
    sessions: Sessions,
    visit: Option<Visit>,
    view: View,
    backoff: Backoff,
}

impl QueueFollower {
    /// Returns the queue after each change; `None` once the client is closed.
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
                Err(_) => self.view.outage().begin(),
            }
            self.backoff.pause().await;
        }
    }
}

/// A stream of items derived from a watched queue.
///
/// It may be polled from any executor and runs within the library's runtime.
pub(crate) struct Feed<T> {
    runtime: Runtime,
    outage: Outage,
    /// `None` once the stream has ended. The mutex is never locked: it only makes the feed `Sync`.
    items: Option<Mutex<BoxStream<'static, T>>>,
}

impl<T: Send + 'static> Feed<T> {
    /// Creates a feed for this queue.
    ///
    /// `values_change`: changes of the first entry's value matter. `pick`: returns the item for a
    /// change, or `None` to skip the change.
    pub(crate) fn new(
        sessions: &Sessions,
        queue: &Queue,
        values_change: bool,
        mut pick: impl FnMut(Snapshot) -> Option<T> + Send + 'static,
    ) -> Self {
        let (view, backoff) = (View::new(queue.clone(), values_change), Backoff::default());
        let outage = view.outage();
        let follower = QueueFollower { sessions: sessions.clone(), visit: None, view, backoff };
        let snapshots = unfold(follower, |mut follower| async move {
            follower.next().await.map(|snapshot| (snapshot, follower))
        });
        let items = snapshots.filter_map(move |snapshot| ready(pick(snapshot))).boxed();
        let runtime = sessions.shared().runtime.clone();
        Self { runtime, outage, items: Some(Mutex::new(items)) }
    }

    /// Returns how long the store has not replied to this feed's requests.
    pub(crate) fn outage(&self) -> Option<Duration> {
        self.outage.time()
    }

    pub(crate) async fn next(&mut self) -> Option<T> {
        poll_fn(|context| self.poll_next(context)).await
    }

    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        let Some(items) = &mut self.items else { return Poll::Ready(None) };
        if self.runtime.check().is_err() {
            return Poll::Ready(None);
        }
        let items = items.get_mut();
        let polled = self.runtime.poll_within(|| items.poll_next_unpin(context));
        // The stream ends with its runtime.
        let item = task::ready!(polled.unwrap_or(Poll::Ready(None)));
        if item.is_none() {
            self.items = None;
        }
        Poll::Ready(item)
    }
}

impl<T> Drop for Feed<T> {
    fn drop(&mut self) {
        if self.runtime.is_inherited() {
            // The items belong to the parent, whose other threads may have held their locks.
            mem::forget(self.items.take());
        }
    }
}

impl<T> fmt::Debug for Feed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{process, sync::Arc};

    use distlock_fork::{Fork, ends_within};

    use super::*;
    use crate::{runtime::OnDrop, session::fake_store::FakeStore};

    /// The items of a feed contain watches and a place in a session's budget.
    #[tokio::test]
    async fn forked_child_does_not_wait_for_the_locks_of_a_feed() {
        let (lock, sessions) =
            (Arc::<Mutex<()>>::default(), Sessions::lazy(FakeStore::new().shared()));
        let (used, queue) = (Arc::clone(&lock), Queue::new("/ns", "a").unwrap());
        let dropped = OnDrop(move || drop(used.lock()));
        let feed = Feed::new(&sessions, &queue, false, move |_| Some(mem::size_of_val(&dropped)));
        let held = lock.lock();
        let child = match distlock_fork::split().unwrap() {
            Fork::Child => {
                drop(feed);
                process::exit(0);
            }
            Fork::Parent(child) => child,
        };
        drop(held);
        let ended = ends_within(child, Duration::from_secs(20)).unwrap();
        assert!(ended, "the child hangs");
    }
}
