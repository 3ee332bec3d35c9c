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

/// Elects one leader at a time, whose value all clients can read.
///
/// Created by [`Client::election`](crate::Client::election). An `Election` is cheap to create,
/// clone and drop.
///
/// Candidates lead in the order in which they joined. The leader publishes a value for observers,
/// for example its address. A leader holds a lock, with the guarantees of a
/// [`LockGuard`](crate::LockGuard). After a change, observers may see the old leader for a moment,
/// or for as long as they are cut off from the store. If work must never overlap, let the resource
/// check the [fencing token](crate::LockGuard::fencing_token).
///
/// On etcd, Go's `concurrency.Election` and `etcdctl elect` can join the election under the prefix
/// `{namespace}/{name}!election`. An election is independent of a [`Mutex`](crate::Mutex) of the
/// same name.
///
/// Redlock and clients with a [bridge](crate::Client::builder) do not support elections
/// ([`Error::Unsupported`]).
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
    /// Returns the election's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.named.name
    }

    /// Limits how long a candidate leads.
    ///
    /// See [`Mutex::max_hold`](crate::Mutex::max_hold).
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

    /// Campaigns with a value, and waits until this candidate leads.
    ///
    /// The value may be at most 16 KiB long.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock). [`Error::InvalidArgument`] if the value is too long,
    /// before anything is sent. [`Error::Unsupported`] on Redlock and with a bridge.
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock): dropping the future withdraws the candidate.
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

    /// Campaigns, and leads if there is no other candidate; `None` otherwise.
    ///
    /// # Errors
    ///
    /// As [`Mutex::try_lock`](crate::Mutex::try_lock). [`Error::InvalidArgument`] if the value is
    /// too long, before anything is sent. [`Error::Unsupported`] on Redlock and with a bridge.
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
    /// let leadership = election.try_campaign("one").await?.expect("no other candidate");
    /// assert!(election.try_campaign("two").await?.is_none());
    /// # leadership.resign().await }
    /// ```
    pub async fn try_campaign(&self, value: impl AsRef<[u8]>) -> Result<Option<Leadership>> {
        self.stand(value.as_ref(), Wait::No).await
    }

    /// Campaigns, and leads if elected within `timeout`; `None` otherwise.
    ///
    /// # Errors
    ///
    /// As [`campaign`](Self::campaign). With a timeout of zero, as
    /// [`try_campaign`](Self::try_campaign).
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

    /// Returns the current leader; `None` if there is none.
    ///
    /// The call reads the newest state of the store.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if an argument is invalid, before anything is sent.
    /// [`Error::Unavailable`] if the store does not reply within about twice the
    /// [`request_timeout`](crate::Builder::request_timeout), or if a new session was needed and
    /// could not be opened. [`Error::Unsupported`] on Redlock and with a bridge. [`Error::Denied`],
    /// [`Error::Backend`], [`Error::SessionLost`], [`Error::Closed`] and [`Error::Runtime`]. On
    /// Redis, also [`Error::NotYet`] while version 1 clients have sessions.
    ///
    /// # Cancel safety
    ///
    /// Safe: the call only reads.
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

    /// Returns a stream of the leaders: first the current one, then later ones.
    ///
    /// Each new value of a leader is an item, too. The stream never returns to an earlier leader,
    /// and yields no item twice. The stream skips leaders and values that were replaced before it
    /// was polled. See [`Observe`].
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] and [`Error::Unsupported`], as for [`leader`](Self::leader). The
    /// stream itself yields no errors. While the store does not reply, [`Observe::cut_off_for`]
    /// returns how long the stream has been cut off.
    pub fn observe(&self) -> Result<Observe> {
        Ok(Observe::new(&self.named.sessions, &self.candidates()?))
    }

    /// Returns the leader and the other candidates, in queue order.
    ///
    /// For the cost, see [`Mutex::queue`](crate::Mutex::queue). The [`owner`](QueueEntry::owner) of
    /// an entry is its candidate's value.
    ///
    /// # Errors
    ///
    /// As [`Mutex::queue`](crate::Mutex::queue). With a bridge, also [`Error::Unsupported`].
    ///
    /// # Cancel safety
    ///
    /// Safe: the call only reads.
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

    /// Returns the leader's entry in the queue; `None` if there is no candidate.
    ///
    /// The entry may belong to no client: see [`QueueEntry`]. In that case,
    /// [`leader`](Self::leader) returns `None`.
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
        self.named.holder().await
    }

    /// Returns a stream of the queue: its current state, then later ones.
    ///
    /// For the cost, see [`Mutex::watch_queue`](crate::Mutex::watch_queue). A value that the leader
    /// [proclaims](crate::Leadership::proclaim) also changes the queue: it becomes the
    /// [`owner`](QueueEntry::owner) of the leader's entry.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] and [`Error::Unsupported`], as for [`queue`](Self::queue). The
    /// stream itself yields no errors. While the store does not reply,
    /// [`QueueWatch::cut_off_for`] returns how long the stream has been cut off.
    pub fn watch_queue(&self) -> Result<QueueWatch> {
        self.named.watch()
    }

    /// Asks the leader to resign; `false` if the queue is empty.
    ///
    /// This method works like [`Mutex::request_release`](crate::Mutex::request_release).
    ///
    /// # Errors
    ///
    /// As [`Mutex::request_release`](crate::Mutex::request_release). With a bridge, also
    /// [`Error::Unsupported`].
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
        Ok(self.named.queue()?.election())
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
