//! A named election.

use std::{
    ops::Deref,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::Stream;
use tokio::sync::{Mutex as AsyncMutex, oneshot};

use crate::{
    backend::{
        Member, Rewritten,
        error::StoreError,
        name::{Queue, Ticket},
    },
    error::{Error, Result},
    fencing::FencingToken,
    lost::LostReason,
    primitives::guard::LockGuard,
    queue::{
        Hold, Wait,
        acquire::Acquire,
        view::{self, Feed},
    },
    runtime::{carried::Carried, mutex::Mutex},
    session::{Session, Sessions, own_keys::OwnKey},
};

/// The longest value, in bytes: a look for the leader is sent those of all candidates.
const MAX_VALUE: usize = 16 << 10;

/// A named election: of those who campaign one leads, and everybody can see who, and what it has to
/// say. Made by [`Client::election`](crate::Client::election); cheap to make, to clone and to throw
/// away.
///
/// Candidates lead in the order in which they came. A leader's value is for those who look: its
/// address, say. Leading is holding a lock: a leader that is cut off learns from its [`Leadership`]
/// that it is none any more before another one is elected, but those who look may still take it for
/// one for a moment. What must never be done by two carries the [fencing
/// token](LockGuard::fencing_token).
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
/// assert_eq!(leader.token(), leadership.fencing_token());
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
    sessions: Sessions,
    name: String,
}

impl Election {
    pub(crate) fn new(sessions: Sessions, name: String) -> Self {
        Self { sessions, name }
    }

    /// The name as it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Stands for election with this value, of at most 16 KiB, and waits until it leads.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock); [`Error::InvalidConfig`] at once if the value is too
    /// long.
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
        self.run(value.as_ref(), Wait::Forever).await?.ok_or(Error::Closed)
    }

    /// Leads if nobody else is a candidate; `None` if somebody is.
    ///
    /// # Errors
    ///
    /// As [`Mutex::try_lock`](crate::Mutex::try_lock); [`Error::InvalidConfig`] at once if the
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
        self.run(value.as_ref(), Wait::No).await
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
        self.run(value.as_ref(), Wait::at_most(timeout)).await
    }

    /// Who leads now; `None` if nobody does. Asks the store for its newest state.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`] at once. [`Error::Unavailable`] if the store does not answer within
    /// about twice the [`request_timeout`](crate::Builder::request_timeout), or if a new session
    /// was needed and could not be opened. [`Error::Denied`], [`Error::Backend`],
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
        let members = view::look_now(&self.sessions, &self.queue()?).await?;
        Ok(members.into_iter().next().map(Leader::new))
    }

    /// All leaders from now on: the present one first, if there is one, then each later one, and
    /// each later value of the one that leads.
    ///
    /// It never goes back to an earlier one, whatever happens to the connection, and tells nothing
    /// twice. Whatever was overtaken before the stream's reader came to it is left out. See
    /// [`Observe`].
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`]. Later ones are not told: the stream goes on
    /// until the store answers again.
    pub fn observe(&self) -> Result<Observe> {
        let mut last: Option<Leader> = None;
        let pick = move |members: Vec<Member>| {
            let leader = members.into_iter().next().map(Leader::new)?;
            let age = |leader: &Leader| (leader.token, leader.version);
            if last.as_ref().is_some_and(|last| age(&leader) <= age(last)) {
                return None;
            }
            let same = last
                .as_ref()
                .is_some_and(|last| (last.token, &last.value) == (leader.token, &leader.value));
            let leader = last.insert(leader);
            (!same).then(|| leader.clone())
        };
        Ok(Observe { feed: Feed::new(&self.sessions, &self.queue()?, true, pick) })
    }

    fn queue(&self) -> Result<Queue> {
        Ok(Queue::new(&self.sessions.shared().namespace, &self.name)?.of("election"))
    }

    async fn run(&self, value: &[u8], wait: Wait) -> Result<Option<Leadership>> {
        let queue = self.queue()?;
        let taking = Acquire { value: Some(checked(value)?), ..Acquire::new(&queue, wait) };
        let hold = wait.bounds(&self.sessions, taking.from(&self.sessions)).await?;
        Ok(hold.map(|hold| Leadership { guard: LockGuard::new(hold), turn: Arc::default() }))
    }
}

fn checked(value: &[u8]) -> Result<Arc<[u8]>> {
    if value.len() > MAX_VALUE {
        let reason =
            "at most 16 KiB: all who look for the leader read it; publish where to find the rest"
                .into();
        return Err(Error::InvalidConfig { option: "value", reason });
    }
    Ok(value.into())
}

/// The leader's right to lead. It is a [`LockGuard`]: dropping it resigns in the background.
#[derive(Debug)]
#[must_use = "the leader resigns as soon as this is dropped"]
pub struct Leadership {
    guard: LockGuard,
    /// Whose turn it is to proclaim, and the version of the key that was last heard of, once it was
    /// written to.
    turn: Arc<AsyncMutex<Option<u64>>>,
}

impl Leadership {
    /// Tells another value, of at most 16 KiB, without losing the lead. `Ok` when the store has
    /// confirmed it.
    ///
    /// Of two at once the second one waits for the first.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the leader is none any more. [`Error::Unavailable`] if the store has not
    /// confirmed within twice the [`request_timeout`](crate::Builder::request_timeout): it still
    /// leads then, and the value may have been written all the same, or may be yet, but never over
    /// a later one. [`Error::InvalidConfig`] at once if the value is too long.
    ///
    /// # Cancel safety
    ///
    /// Once its turn has come it goes on in the background; dropped before, it has sent nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-proclaim").await?;
    /// let election = client.election("scheduler");
    /// let leadership = election.campaign("starting").await?;
    /// leadership.proclaim("ready").await?;
    /// let leader = election.leader().await?.expect("it still leads");
    /// assert_eq!(leader.value(), b"ready");
    /// # leadership.resign().await }
    /// ```
    pub async fn proclaim(&self, value: impl AsRef<[u8]>) -> Result<()> {
        let value = checked(value.as_ref())?;
        // An election's guard always has one.
        let Some(rewrite) = self.guard.hold().and_then(Rewrite::new) else {
            return Err(Error::Closed);
        };
        let runtime = &self.guard.session().shared.runtime;
        let turn = Arc::clone(&self.turn);
        let (interest, _interested) = oneshot::channel::<()>();
        let work = Carried::whole(runtime, async move {
            let mut turn = turn.lock_owned().await;
            // Its caller went away before its turn came: nothing is sent.
            if interest.is_closed() {
                return Err(Error::Closed);
            }
            rewrite.run(&value, &mut turn).await
        });
        runtime.within(work).await
    }

    /// Lets the next candidate lead: [`LockGuard::unlock`].
    ///
    /// # Errors
    ///
    /// As [`LockGuard::unlock`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::unlock`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-resign").await?;
    /// let election = client.election("scheduler");
    /// let leadership = election.campaign("one").await?;
    /// leadership.resign().await?;
    /// assert!(election.leader().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub async fn resign(self) -> Result<()> {
        self.guard.unlock().await
    }
}

impl Deref for Leadership {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}

/// What it takes to write into one's own key.
struct Rewrite {
    session: Arc<Session>,
    name: String,
    ticket: Ticket,
    own_key: Arc<OwnKey>,
}

impl Rewrite {
    fn new(hold: &Hold) -> Option<Self> {
        let attempt = &hold.attempt;
        let (session, own_key) = (Arc::clone(attempt.session()), Arc::clone(attempt.own_key()?));
        Some(Self {
            session,
            name: attempt.queue().name().to_owned(),
            ticket: attempt.ticket(),
            own_key,
        })
    }

    /// Each attempt names the version that it writes over. So one that was given up can't be
    /// applied after a later one, however long it was on its way.
    async fn run(&self, value: &[u8], version: &mut Option<u64>) -> Result<()> {
        let (session, own_key) = (&self.session, &self.own_key);
        let known = Mutex::new(*version);
        let request = || async {
            let was = *known.lock();
            match session.bare_store().rewrite(self.ticket, &own_key.entry, value, was).await? {
                Rewritten::Done(now) => *known.lock() = Some(now),
                // By an attempt whose answer was lost, or by an operator.
                Rewritten::Not(now) => {
                    *known.lock() = Some(now);
                    return Err(StoreError::Unavailable("it was written meanwhile".into()));
                }
                Rewritten::Gone => own_key.lose(LostReason::KeyDeleted),
            }
            Ok(())
        };
        let written = tokio::select! {
            biased;
            _ = own_key.lost() => Ok(()),
            written = session.ask_briefly(request) => written,
        };
        *version = *known.lock();
        match own_key.lost_reason().or_else(|| session.deadline.lost_reason()) {
            Some(reason) => Err(Error::Lost { name: self.name.clone(), reason }),
            None => written.map_err(|error| session.public(error)),
        }
    }
}

/// One who leads, as seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    value: Vec<u8>,
    version: u64,
    token: FencingToken,
    key: Arc<str>,
}

impl Leader {
    fn new(first: Member) -> Self {
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

    /// Its [fencing token](LockGuard::fencing_token): rises from one leader to the next.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Its key, as the store's own tools show it.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// The leaders of an election, one after the other: a `Stream` (of the `futures` crates). Made by
/// [`Election::observe`].
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
    /// assert_eq!(leader.token(), leadership.fencing_token());
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
