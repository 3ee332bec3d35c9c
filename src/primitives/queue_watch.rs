//! A stream of the states of a lock's queue.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::Stream;

use crate::{
    primitives::{queue_entry::QueueEntry, viewer::Viewer},
    queue::{feed::Feed, snapshot::Snapshot},
};

/// Streams the states of a lock's queue, as a `Stream` of the `futures` crates.
///
/// Created by [`Mutex::watch_queue`](crate::Mutex::watch_queue) and the same methods of the other
/// primitives.
///
/// The stream keeps the client open. The stream ends when the client is closed or the client's
/// runtime is shut down, and in a forked child.
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct QueueWatch {
    viewer: Viewer,
    /// One for each queue of the lock.
    parts: Vec<Part>,
    last: Option<Vec<QueueEntry>>,
}

#[derive(Debug)]
struct Part {
    feed: Feed<Snapshot>,
    seen: Option<Snapshot>,
}

impl QueueWatch {
    pub(crate) fn new(viewer: Viewer) -> Self {
        let part = |queue| {
            let feed = Feed::new(&viewer.sessions, queue, viewer.values_change(), Some);
            Part { feed, seen: None }
        };
        let parts = viewer.queues.iter().map(part).collect();
        Self { viewer, parts, last: None }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Vec<QueueEntry>>> {
        loop {
            let mut changed = false;
            for part in &mut self.parts {
                match part.feed.poll_next(context) {
                    Poll::Ready(None) => return Poll::Ready(None),
                    Poll::Ready(Some(snapshot)) => {
                        part.seen = Some(snapshot);
                        changed = true;
                    }
                    Poll::Pending => {}
                }
            }
            if !changed {
                return Poll::Pending;
            }
            let seen: Option<Vec<_>> = self.parts.iter().map(|part| part.seen.as_ref()).collect();
            let entries = seen.map(|sights| self.viewer.entries(&sights));
            if entries.is_some() && entries != self.last {
                self.last.clone_from(&entries);
                return Poll::Ready(entries);
            }
        }
    }

    /// Returns the next state of the queue; `None` once the stream has ended.
    ///
    /// The first call returns the current state. This method returns the items of the stream one
    /// by one, without `StreamExt`.
    ///
    /// # Cancel safety
    ///
    /// Safe: no item is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-queue-watch-next").await?;
    /// let mutex = client.mutex("report");
    /// let mut queue = mutex.watch_queue()?;
    /// assert!(queue.next().await.expect("the client is open").is_empty());
    ///
    /// let guard = mutex.lock().await?;
    /// let entries = queue.next().await.expect("the client is open");
    /// assert_eq!(entries[0].key(), guard.key());
    /// # guard.unlock().await }
    /// ```
    pub async fn next(&mut self) -> Option<Vec<QueueEntry>> {
        poll_fn(|context| self.poll(context)).await
    }

    /// Returns how long the watch has been cut off; `None` if it is not.
    ///
    /// The time is measured from the first failed request, or from the loss of the session. While
    /// the client holds or awaits a lock, a lost connection ends its session within about one TTL.
    /// Otherwise, the next recheck detects the outage at the latest: see
    /// [`recheck_interval`](crate::Builder::recheck_interval). While the watch is cut off, it does
    /// not see changes. The time is updated only while the watch is polled.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use distlock::{Client, memory::Space};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = Client::connect("memory://docs-queue-watch-cut-off").await?;
    /// let mut queue = client.mutex("report").watch_queue()?;
    /// assert_eq!(queue.cut_off_for(), None);
    ///
    /// Space::named("docs-queue-watch-cut-off").set_reachable(false);
    /// while queue.cut_off_for().is_none() {
    ///     let next = tokio::time::timeout(Duration::from_millis(10), queue.next());
    ///     assert!(next.await.is_err());
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn cut_off_for(&self) -> Option<Duration> {
        self.parts.iter().filter_map(|part| part.feed.outage()).max()
    }
}

impl Stream for QueueWatch {
    type Item = Vec<QueueEntry>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(context)
    }
}
