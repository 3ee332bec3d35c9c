//! Who stands in a lock's queue, as its users see it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::SystemTime,
};

use futures_util::Stream;

use crate::{
    backend::{Member, name::Queue, signature},
    fencing::FencingToken,
    queue::view::Feed,
    session::Sessions,
};

/// Whose view of a queue it is.
pub(crate) struct Viewer {
    sessions: Sessions,
    /// Its contenders share an entry and pass the lock among themselves.
    local_handover: bool,
}

impl Viewer {
    pub(crate) fn new(sessions: Sessions, local_handover: bool) -> Self {
        Self { sessions, local_handover }
    }

    pub(crate) fn entries(&self, members: Vec<Member>) -> Vec<QueueEntry> {
        let entries = members.into_iter().enumerate();
        entries.map(|(position, member)| self.entry(position, member)).collect()
    }

    fn entry(&self, position: usize, member: Member) -> QueueEntry {
        let Member { entry, detail, .. } = member;
        let own = detail.as_ref().is_some_and(|detail| detail.own) || self.sessions.owns(&entry);
        let (value, told) =
            detail.map_or_else(Default::default, |detail| (detail.value, detail.since));
        let (owner, signed) = signature::read(&value);
        let first_token = if self.local_handover { entry.token << u16::BITS } else { entry.token };
        QueueEntry {
            position,
            owner,
            token: FencingToken::new(first_token),
            since: told.or(signed),
            key: entry.key,
            own,
        }
    }
}

/// One who stands in a lock's queue: its holder or one who waits for it. Seen by
/// [`Mutex::queue`](crate::Mutex::queue), [`Mutex::holder`](crate::Mutex::holder) and
/// [`Mutex::watch_queue`](crate::Mutex::watch_queue).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueEntry {
    position: usize,
    owner: String,
    token: FencingToken,
    since: Option<SystemTime>,
    key: Arc<str>,
    own: bool,
}

impl QueueEntry {
    /// How many are ahead: 0 is the holder's, or that of one who is about to be.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// The [`owner`](crate::Builder::owner) of its client. Of another library's waiter it is
    /// whatever was written into the key, if anything.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The fencing token that it has, or will have once it is granted. With
    /// [`local_handover`](crate::Builder::local_handover), which has to be on in all clients of the
    /// lock, it is the first one of those that its client has to give.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Since when it stands there, where that is known: by the server's clock on ZooKeeper, by its
    /// owner's otherwise. For people to read: clocks differ.
    #[must_use]
    pub fn since(&self) -> Option<SystemTime> {
        self.since
    }

    /// Its key, as the store's own tools show it.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether it is of the client that looked.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.own
    }
}

/// The queue of a lock, now and whenever it has changed: a `Stream` (of the `futures` crates). Made
/// by [`Mutex::watch_queue`](crate::Mutex::watch_queue).
///
/// It ends when the client is closed, and keeps the client open otherwise. Dropping it ends the
/// watch.
#[derive(Debug)]
#[must_use = "it does nothing unless it is polled"]
pub struct QueueWatch {
    feed: Feed<Vec<QueueEntry>>,
}

impl QueueWatch {
    pub(crate) fn new(viewer: Viewer, queue: &Queue) -> Self {
        let (sessions, mut last) = (viewer.sessions.clone(), None);
        let pick = move |members| {
            let entries = viewer.entries(members);
            let new = last.as_ref() != Some(&entries);
            new.then(|| last.insert(entries).clone())
        };
        Self { feed: Feed::new(&sessions, queue, false, pick) }
    }

    /// The queue as it is, at the first call, or else once it has changed; `None` when the client
    /// is closed. The same as the stream's, for those who have no use for it.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is missed.
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
        self.feed.next().await
    }
}

impl Stream for QueueWatch {
    type Item = Vec<QueueEntry>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.feed.poll_next(context)
    }
}
