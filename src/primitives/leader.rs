//! The leader of an election, as observers see it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::Stream;

use crate::{
    backend::{
        Member,
        name::{NOBODY, Queue},
    },
    fencing::FencingToken,
    queue::{feed::Feed, snapshot::Snapshot},
    session::Sessions,
};

/// Describes the leader of an election, as observers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    pub(super) value: Vec<u8>,
    pub(super) version: u64,
    pub(super) token: FencingToken,
    key: Arc<str>,
}

/// Returns the leader: the first candidate. There is none if the first entry belongs to no client
/// and only blocks the queue.
pub(super) fn first(snapshot: Snapshot) -> Option<Member> {
    let first = snapshot.members.into_iter().next()?;
    (first.label.as_deref() != Some(NOBODY)).then_some(first)
}

impl Leader {
    pub(super) fn new(first: Member) -> Self {
        let (value, version) =
            first.detail.map_or_else(Default::default, |detail| (detail.value, detail.version));
        Self { value, version, token: FencingToken::new(first.entry.token), key: first.entry.key }
    }

    /// Returns the leader's value.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// Returns the leader's value as text; `None` if it is not UTF-8.
    #[must_use]
    pub fn value_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.value).ok()
    }

    /// Returns the leader's fencing token.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// Returns the leader's key: see [`LockGuard::key`](crate::LockGuard::key).
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// Streams the leaders of an election, as a `Stream` of the `futures` crates.
///
/// Created by [`Election::observe`](crate::Election::observe). The stream reads the queue after
/// each change of the queue. While the queue does not change, the stream reads it once per
/// [`recheck_interval`](crate::Builder::recheck_interval): for the cost of a read, see
/// [`Mutex::queue`](crate::Mutex::queue). On stores without notifications, the stream also polls:
/// see [`Mutex::lock`](crate::Mutex::lock). The stream survives lost connections and sessions.
/// [`cut_off_for`](Self::cut_off_for) returns how long the stream has been cut off from the store.
/// While there is no leader, the stream waits. The stream keeps the client open. The stream ends
/// when the client is closed or the client's runtime is shut down, and in a forked child.
///
/// If a store loses confirmed writes or is restored from a backup, a later leader may have a lower
/// fencing token than an earlier one. The stream does not yield this leader. After a restore,
/// create a new stream.
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Observe {
    feed: Feed<Leader>,
}

impl Observe {
    pub(super) fn new(sessions: &Sessions, candidates: &Queue) -> Self {
        let mut seen = Seen::default();
        let pick = move |snapshot: Snapshot| seen.newer(first(snapshot)?);
        Self { feed: Feed::new(sessions, candidates, true, pick) }
    }

    /// Returns the next leader or its next value; `None` once the stream has ended.
    ///
    /// This method returns the items of the stream one by one, without `StreamExt`.
    ///
    /// # Cancel safety
    ///
    /// Safe: no item is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-observe-next").await?;
    /// let election = client.election("scheduler");
    /// let mut leaders = election.observe()?;
    /// let leadership = election.campaign("10.0.0.7:8080").await?;
    /// let leader = leaders.next().await.expect("the client is open");
    /// assert_eq!(leader.fencing_token(), leadership.fencing_token());
    ///
    /// client.close().await?;
    /// assert!(leaders.next().await.is_none());
    /// # Ok(()) }
    /// ```
    pub async fn next(&mut self) -> Option<Leader> {
        self.feed.next().await
    }

    /// Returns how long the stream has been cut off; `None` if it is not.
    ///
    /// The time is measured from the first failed request, or from the loss of the session. While
    /// the client holds or awaits a lock, a lost connection ends its session within about one TTL.
    /// Otherwise, the next recheck detects the outage at the latest: see
    /// [`recheck_interval`](crate::Builder::recheck_interval). While the stream is cut off, it does
    /// not see changes. The time is updated only while the stream is polled.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use distlock::{Client, memory::Space};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = Client::connect("memory://docs-observe-cut-off").await?;
    /// let mut leaders = client.election("scheduler").observe()?;
    /// assert_eq!(leaders.cut_off_for(), None);
    ///
    /// Space::named("docs-observe-cut-off").set_reachable(false);
    /// while leaders.cut_off_for().is_none() {
    ///     let next = tokio::time::timeout(Duration::from_millis(10), leaders.next());
    ///     assert!(next.await.is_err());
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn cut_off_for(&self) -> Option<Duration> {
        self.feed.outage()
    }
}

impl Stream for Observe {
    type Item = Leader;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Leader>> {
        self.feed.poll_next(context)
    }
}

/// The last item of the stream, so that it yields no item twice and none that is older.
#[derive(Default)]
struct Seen(Option<Leader>);

impl Seen {
    /// Returns the leader if it is later than the last one, or has a later value that differs.
    fn newer(&mut self, first: Member) -> Option<Leader> {
        let leader = Leader::new(first);
        let age = |leader: &Leader| (leader.token, leader.version);
        if self.0.as_ref().is_some_and(|last| age(&leader) <= age(last)) {
            return None;
        }
        let same = |last: &Leader| (last.token, &last.value) == (leader.token, &leader.value);
        let same = self.0.as_ref().is_some_and(same);
        let leader = self.0.insert(leader);
        (!same).then(|| leader.clone())
    }
}
