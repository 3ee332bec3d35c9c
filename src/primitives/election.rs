//! A named election.

mod run;

use std::{pin::pin, sync::Arc, time::Duration};

use crate::{
    backend::name::Queue,
    error::{Error, Result},
    primitives::{
        leader::{self, Leader, Observe},
        leadership::{Leadership, checked},
        named::Named,
        queue_entry::QueueEntry,
        queue_watch::QueueWatch,
    },
    queue::{Wait, acquire::Acquire, snapshot},
    telemetry::Primitive,
};

/// A named election: of those who campaign one leads, and everybody can see who, and what it has to
/// say. Made by [`Client::election`](crate::Client::election); cheap to make, to clone and to throw
/// away.
///
/// Candidates lead in the order in which they came. A leader's value is for those who look: its
/// address, say. Leading is holding a lock: a leader that is cut off learns from its [`Leadership`]
/// that it is none any more before another one is elected, but those who look may still take it for
/// one for a moment. What must never be done by two carries the [fencing
/// token](crate::LockGuard::fencing_token).
///
/// On etcd the keys lie below `{namespace}/{name}!election/`, and their values are the candidates'
/// as they are, so that Go's `concurrency.Election` and `etcdctl elect` take part in the election
/// of that prefix. It has nothing to do with a [`Mutex`](crate::Mutex) of the same name.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
/// let client = distlock::Client::connect("memory://docs-election").await?;
/// let election = client.election("scheduler");
/// assert!(election.leader().await?.is_none());
///
/// let leadership = election.campaign("10.0.0.7:8080").await?;
/// let leader = election.leader().await?.expect("it was just elected");
/// assert_eq!(leader.value_str(), Some("10.0.0.7:8080"));
/// assert_eq!(leader.fencing_token(), leadership.fencing_token());
///
/// let mut leaders = election.observe()?;
/// assert_eq!(leaders.next().await, Some(leader));
/// leadership.proclaim("10.0.0.7:9090").await?;
/// assert_eq!(leaders.next().await.expect("the client is open").value(), b"10.0.0.7:9090");
/// leadership.resign().await
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Election {
    pub(crate) named: Named,
}

impl Election {
    /// The name as it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.named.name
    }

    /// Limits how long a candidate leads: see [`Mutex::max_hold`](crate::Mutex::max_hold).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use distlock::LostReason;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-max-hold-election").await?;
    /// let election = client.election("scheduler").max_hold(Duration::from_millis(20));
    /// let leadership = election.campaign("one").await?;
    /// assert_eq!(leadership.lost().await, LostReason::HeldTooLong);
    /// election.campaign("two").await?.resign().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn max_hold(mut self, time: Duration) -> Self {
        self.named.max_hold = Some(time);
        self
    }

    /// Stands for election with this value, of at most 16 KiB, and waits until it leads.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock); [`Error::InvalidArgument`] at once if the value is
    /// too long.
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock): dropping the future withdraws the candidate, and
    /// nothing stays behind.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-campaign").await?;
    /// let leadership = client.election("scheduler").campaign("10.0.0.7:8080").await?;
    /// println!("leads, with token {}", leadership.fencing_token());
    /// leadership.resign().await
    /// # }
    /// ```
    pub async fn campaign(&self, value: impl AsRef<[u8]>) -> Result<Leadership> {
        self.stand(value.as_ref(), Wait::Forever).await?.ok_or(Error::Closed)
    }

    /// Leads if nobody else is a candidate; `None` if somebody is.
    ///
    /// # Errors
    ///
    /// As [`Mutex::try_lock`](crate::Mutex::try_lock); [`Error::InvalidArgument`] at once if the
    /// value is too long.
    ///
    /// # Cancel safety
    ///
    /// As [`campaign`](Self::campaign).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-try-campaign").await?;
    /// let election = client.election("scheduler");
    /// let leadership = election.try_campaign("one").await?.expect("nobody else is a candidate");
    /// assert!(election.try_campaign("two").await?.is_none());
    /// # leadership.resign().await }
    /// ```
    pub async fn try_campaign(&self, value: impl AsRef<[u8]>) -> Result<Option<Leadership>> {
        self.stand(value.as_ref(), Wait::No).await
    }

    /// The same as [`campaign`](Self::campaign), but for no longer than this; `None` when the time
    /// is up.
    ///
    /// # Errors
    ///
    /// As [`campaign`](Self::campaign).
    ///
    /// # Cancel safety
    ///
    /// As [`campaign`](Self::campaign).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-campaign-timeout").await?;
    /// let election = client.election("scheduler");
    /// let leadership = election.campaign("one").await?;
    /// let timeout = Duration::from_millis(20);
    /// assert!(election.campaign_timeout("two", timeout).await?.is_none());
    /// # leadership.resign().await }
    /// ```
    pub async fn campaign_timeout(
        &self,
        value: impl AsRef<[u8]>,
        timeout: Duration,
    ) -> Result<Option<Leadership>> {
        self.stand(value.as_ref(), Wait::at_most(timeout)).await
    }

    /// Who leads now; `None` if nobody does. Asks the store for its newest state.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] at once. [`Error::Unavailable`] if the store does not answer
    /// within about twice the [`request_timeout`](crate::Builder::request_timeout), or if a new
    /// session was needed and could not be opened. [`Error::Denied`], [`Error::Backend`],
    /// [`Error::SessionLost`] and [`Error::Closed`].
    ///
    /// # Cancel safety
    ///
    /// Safe: it only looks.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-leader").await?;
    /// let election = client.election("scheduler");
    /// assert!(election.leader().await?.is_none());
    /// let leadership = election.campaign("10.0.0.7:8080").await?;
    /// let leader = election.leader().await?.expect("one was just elected");
    /// assert_eq!(leader.value_str(), Some("10.0.0.7:8080"));
    /// # leadership.resign().await }
    /// ```
    pub async fn leader(&self) -> Result<Option<Leader>> {
        let snapshot = snapshot::look_now(&self.named.sessions, &self.candidates()?).await?;
        Ok(leader::first(snapshot).map(Leader::new))
    }

    /// Returns a stream of the leaders: the current one first, then each later one.
    ///
    /// Each new value of a leader is an item, too. The stream never goes back to an earlier leader,
    /// and has no item twice. It skips what was replaced before the reader polled it. See
    /// [`Observe`].
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`]. The stream itself never fails: it continues when the store
    /// replies again, and [`Observe::cut_off_for`] returns how long it has been cut off.
    pub fn observe(&self) -> Result<Observe> {
        Ok(Observe::new(&self.named.sessions, &self.candidates()?))
    }

    /// Who leads and who else is a candidate, in that order, as of now.
    ///
    /// What it costs is told by [`Mutex::queue`](crate::Mutex::queue). The
    /// [`owner`](QueueEntry::owner) of an entry is what its candidate has to say.
    ///
    /// # Errors
    ///
    /// As [`Mutex::queue`](crate::Mutex::queue).
    ///
    /// # Cancel safety
    ///
    /// Safe: it only looks.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-election-queue").await?;
    /// let election = client.election("scheduler");
    /// let leadership = election.campaign("10.0.0.7").await?;
    /// let entries = election.queue().await?;
    /// assert!(entries.len() == 1 && entries[0].is_holder());
    /// # Ok(()) }
    /// ```
    pub async fn queue(&self) -> Result<Vec<QueueEntry>> {
        self.named.entries().await
    }

    /// The first of those who hold it; `None` if nobody does.
    ///
    /// # Errors
    ///
    /// As [`queue`](Self::queue).
    ///
    /// # Cancel safety
    ///
    /// As [`queue`](Self::queue).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-election-holder").await?;
    /// let election = client.election("scheduler");
    /// assert!(election.holder().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub async fn holder(&self) -> Result<Option<QueueEntry>> {
        Ok(self.queue().await?.into_iter().next().filter(QueueEntry::is_holder))
    }

    /// The [`queue`](Self::queue) as it is now, and again whenever it has changed: as
    /// [`Mutex::watch_queue`](crate::Mutex::watch_queue).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`]. The stream itself never fails: it continues when the store
    /// replies again, and [`QueueWatch::cut_off_for`] returns how long it has been cut off.
    pub fn watch_queue(&self) -> Result<QueueWatch> {
        self.named.watch()
    }

    /// Asks the leader to resign; `false` if there is none.
    ///
    /// The reason has at most 1,000 bytes. As
    /// [`Mutex::request_release`](crate::Mutex::request_release), it never takes a lock by force: a
    /// holder that awaits [`release_requested`](crate::LockGuard::release_requested) decides
    /// itself.
    ///
    /// # Errors
    ///
    /// As [`Mutex::request_release`](crate::Mutex::request_release).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future withdraws the request.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-request-release-leader").await?;
    /// let election = client.election("scheduler");
    /// assert!(!election.request_release("it is free").await?);
    ///
    /// let guard = election.campaign("one").await?;
    /// assert!(election.request_release("a deployment is due").await?);
    /// assert_eq!(guard.release_requested().await.reason(), "a deployment is due");
    /// guard.resign().await
    /// # }
    /// ```
    pub async fn request_release(&self, reason: impl AsRef<str>) -> Result<bool> {
        self.named.request_release(reason.as_ref()).await
    }

    fn candidates(&self) -> Result<Queue> {
        Ok(self.named.queue()?.of("election"))
    }

    async fn stand(&self, value: &[u8], wait: Wait) -> Result<Option<Leadership>> {
        let limit = self.named.limit()?;
        let (queue, value) = (self.candidates()?, checked(value)?);
        let sessions = &self.named.sessions;
        let acquire = || Acquire { value: Some(Arc::clone(&value)), ..Acquire::new(&queue, wait) };
        let taking = pin!(wait.bounds(sessions, || acquire().from(sessions)));
        Ok(self.named.take(Primitive::Election, limit, wait, taking).await?.map(Leadership::new))
    }
}
