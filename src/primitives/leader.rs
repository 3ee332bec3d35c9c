//! Who leads, as seen from outside.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
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

/// One who leads, as seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    pub(super) value: Vec<u8>,
    pub(super) version: u64,
    pub(super) token: FencingToken,
    key: Arc<str>,
}

/// Who leads: the first candidate, unless somebody has to be waited for who is not known.
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

    /// What it has to say.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// The same as text; `None` if it is not UTF-8.
    #[must_use]
    pub fn value_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.value).ok()
    }

    /// Returns the fencing token of its lead, which rises from one leader to the next.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// Its key, as the store's own tools show it.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// The leaders of an election, one after the other: a `Stream` (of the `futures` crates). Made by
/// [`Election::observe`](crate::Election::observe).
///
/// While nothing changes it asks nothing, except for a look every
/// [`recheck_interval`](crate::Builder::recheck_interval). It gets over lost connections and
/// sessions, waits while nobody leads, and ends when the client is closed; until then it keeps the
/// client open. Dropping it ends everything.
#[derive(Debug)]
#[must_use = "it does nothing unless it is polled"]
pub struct Observe {
    feed: Feed<Leader>,
}

impl Observe {
    pub(super) fn new(sessions: &Sessions, candidates: &Queue) -> Self {
        let mut seen = Seen::default();
        let pick = move |snapshot: Snapshot| seen.newer(first(snapshot)?);
        Self { feed: Feed::new(sessions, candidates, true, pick) }
    }

    /// The next leader, or value of the same; `None` when the client is closed. The same as the
    /// stream's, for those who have no use for it.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is missed.
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
}

impl Stream for Observe {
    type Item = Leader;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Leader>> {
        self.feed.poll_next(context)
    }
}

/// The leaders that were told, so that none is told twice, nor one that is older than another.
#[derive(Default)]
struct Seen(Option<Leader>);

impl Seen {
    /// The leader, if it is a later one, or has something else to say.
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
