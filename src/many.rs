//! Several locks, all or none.

use std::{pin::pin, time::Duration};

use futures_util::future::{join_all, select_all};
use tokio::time::timeout;

use crate::{
    carry::Carried,
    claim::Claim,
    client::Client,
    error::{Error, Result, StoreError},
    guard::{self, LockGuard, Lost, LostReason},
    name::Queue,
    queue::{self, COURTESY, Failure, Wait},
    rig::{Bug, planted},
    runtime,
};

/// How many queues are joined in one request: etcd takes 128 operations by default, and each queue
/// may need several.
const AT_ONCE: usize = 32;

/// Several locks that were taken together. Made by [`Client::lock_all`].
///
/// Dropping it releases all of them in the background, as dropping a [`LockGuard`] does.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
/// let client = distlock::Client::connect("memory://docs-all-guard").await?;
/// let all = client.lock_all(["bob", "alice"]).await?;
/// let names: Vec<_> = all.guards().iter().map(|guard| guard.name()).collect();
/// assert_eq!(names, ["alice", "bob"]);
/// assert!(all.is_valid());
/// all.unlock().await
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the locks are released as soon as the guard is dropped"]
#[clippy::has_significant_drop]
pub struct AllGuard {
    pub(crate) guards: Vec<LockGuard>,
}

impl Client {
    /// Takes all these mutexes' locks, or none: the ones that [`mutex`](Self::mutex) makes.
    ///
    /// They are taken in one order, whatever the order of the names, so that callers whose names
    /// overlap never wait for each other in a circle. That goes for callers of `lock_all`; whoever
    /// holds a lock already and then asks for others sees to the order himself.
    ///
    /// Where all are free, up to 32 of them are taken in one request, if the store can do that and
    /// no [`local_handover`](crate::Builder::local_handover) is on. Else they are taken one after
    /// the other, each as [`Mutex::lock`](crate::Mutex::lock) does, and it holds those that it has
    /// while it waits for the next one.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`] at once, also if there is no name or one of them is there twice. Else
    /// as [`Mutex::lock`](crate::Mutex::lock), where losing a lock that was taken while others are
    /// waited for is like losing a place in a queue. Nothing is held then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up what was taken, and the place in the queue, in the background.
    /// Dropped before its first poll, it has sent nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-lock-all").await?;
    /// let accounts = client.lock_all(["alice", "bob"]).await?;
    /// let token = accounts.get("alice").expect("it was asked for").fencing_token();
    /// # let _ = token;
    /// accounts.unlock().await
    /// # }
    /// ```
    pub async fn lock_all<I>(&self, names: I) -> Result<AllGuard>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        // Waiting for ever ends with a guard or an error.
        self.all(self.queues(names)?, Wait::Forever).await?.ok_or(Error::Closed)
    }

    /// Takes all these locks if nobody holds or waits for any of them; `None` if somebody does.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`] as [`lock_all`](Self::lock_all). Else as
    /// [`Mutex::try_lock`](crate::Mutex::try_lock).
    ///
    /// # Cancel safety
    ///
    /// As [`lock_all`](Self::lock_all). Where a lock is not free, those that were taken before are
    /// released; the call waits at most 100 ms for that.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-try-lock-all").await?;
    /// let bob = client.mutex("bob").lock().await?;
    /// assert!(client.try_lock_all(["alice", "bob"]).await?.is_none());
    /// # bob.unlock().await }
    /// ```
    pub async fn try_lock_all<I>(&self, names: I) -> Result<Option<AllGuard>>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        self.all(self.queues(names)?, Wait::No).await
    }

    /// The same as [`lock_all`](Self::lock_all), but for no longer than `timeout` for all of them
    /// together; `None` when the time is up. A timeout of zero is a
    /// [`try_lock_all`](Self::try_lock_all).
    ///
    /// # Errors
    ///
    /// As [`lock_all`](Self::lock_all).
    ///
    /// # Cancel safety
    ///
    /// As [`lock_all`](Self::lock_all). When the time is up, what was taken is released just as if
    /// the future had been dropped; the call waits at most 100 ms for that.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-lock-all-timeout").await?;
    /// let bob = client.mutex("bob").lock().await?;
    /// let timeout = Duration::from_millis(20);
    /// assert!(client.lock_all_timeout(["alice", "bob"], timeout).await?.is_none());
    /// # bob.unlock().await }
    /// ```
    pub async fn lock_all_timeout<I>(&self, names: I, timeout: Duration) -> Result<Option<AllGuard>>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        self.all(self.queues(names)?, Wait::at_most(timeout)).await
    }

    /// In the order in which everybody takes them.
    fn queues<I>(&self, names: I) -> Result<Vec<Queue>>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let queues = names.into_iter().map(|name| Queue::new(self.namespace(), name.as_ref()));
        let mut queues = queues.collect::<Result<Vec<_>>>()?;
        if !planted(Bug::LocksInCallersOrder) {
            queues.sort_unstable_by(|one, other| one.dir().cmp(other.dir()));
        }
        let invalid = |name: &str, reason: &str| Error::InvalidName {
            name: name.to_owned(),
            reason: reason.to_owned(),
        };
        if queues.is_empty() {
            return Err(invalid("", "there is nothing to lock: pass at least one name"));
        }
        if let Some(twice) = queues.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(invalid(twice[0].name(), "it is there twice: pass each name once"));
        }
        Ok(queues)
    }

    async fn all(&self, queues: Vec<Queue>, wait: Wait) -> Result<Option<AllGuard>> {
        let taking = pin!(self.bounded(wait, async {
            match self.at_once(&queues, wait).await? {
                Some(guards) => Ok(Some(AllGuard { guards })),
                None if wait.has_passed() => Ok(None),
                None => self.one_by_one(&queues, wait).await,
            }
        }));
        runtime::within(self.runtime(), taking).await
    }

    /// In one request, if all are free; `None` if they are not, or that can't be told so.
    async fn at_once(&self, queues: &[Queue], wait: Wait) -> Result<Option<Vec<LockGuard>>> {
        if self.handover().is_some() || !(2..=AT_ONCE).contains(&queues.len()) {
            return Ok(None);
        }
        let claims = async {
            let first = self.claim(&queues[0]).await?;
            // All of one session.
            let rest = queues[1..]
                .iter()
                .map(|queue| first.session().claim(queue))
                .collect::<Option<Vec<_>>>();
            Ok(rest.map(|rest| std::iter::once(first).chain(rest).collect::<Vec<_>>()))
        };
        let claims = tokio::select! {
            biased;
            claims = claims => claims?,
            () = wait.is_over() => return Ok(None),
        };
        let Some(claims) = claims else { return Ok(None) };
        // If this future is dropped, the write still ends, and then the claims with it.
        let joining = Carried::whole(self.runtime(), Claim::join_all(claims));
        let joined = tokio::select! {
            biased;
            joined = joining => joined,
            () = wait.is_over() => return Ok(None),
        };
        let entered = match joined {
            Ok(Some(entered)) => entered,
            // One by one there are more attempts, and new sessions.
            Ok(None) | Err(StoreError::Unavailable(_) | StoreError::SessionGone(_)) => {
                return Ok(None);
            }
            // Behind keys of one's own that are about to be deleted, unless one does not want to
            // wait.
            Err(StoreError::Unknown(_)) if !matches!(wait, Wait::No) => return Ok(None),
            Err(error) => return Err(error.into_public(self.backend_name())),
        };
        let mut guards = Vec::with_capacity(entered.len());
        for entered in entered {
            match queue::hold(entered, wait).await {
                Ok(Some(hold)) => guards.push(LockGuard::new(hold)),
                Ok(None) => return Ok(None),
                Err(Failure::StaleSession(error) | Failure::Final(error)) => return Err(error),
            }
        }
        Ok(Some(guards))
    }

    async fn one_by_one(&self, queues: &[Queue], wait: Wait) -> Result<Option<AllGuard>> {
        let mut all = AllGuard { guards: Vec::with_capacity(queues.len()) };
        for queue in queues {
            let mutex = self.mutex(queue.name());
            let taken = tokio::select! {
                biased;
                (lost, reason) = all.first_lost() => return Err(forgone(lost, reason)),
                taken = mutex.acquire(wait) => taken?,
            };
            match taken {
                Some(guard) => all.guards.push(guard),
                None => {
                    // It goes on in any case.
                    let _ = timeout(COURTESY, all.unlock()).await;
                    return Ok(None);
                }
            }
        }
        Ok(Some(all))
    }
}

/// The error of one who lost a lock while he waited for another one: he has nothing to tell of it,
/// as nobody has worked under it.
fn forgone(lost: &LockGuard, reason: LostReason) -> Error {
    match reason {
        LostReason::KeyDeleted => Error::Evicted { name: lost.name().to_owned() },
        reason => lost.session().lost_error(reason),
    }
}

/// The first of the guards that is lost, and why.
pub(crate) async fn first_lost<'a>(
    guards: impl IntoIterator<Item = &'a LockGuard>,
) -> (&'a LockGuard, LostReason) {
    let each: Vec<_> = guards
        .into_iter()
        .map(|guard| Box::pin(async move { (guard, guard.lost().await) }))
        .collect();
    if each.is_empty() {
        return std::future::pending().await;
    }
    select_all(each).await.0
}

impl AllGuard {
    /// The guards, in the order in which they were taken.
    ///
    /// Each has its own fencing token, and can [`write`](LockGuard::write) for as long as it is
    /// held itself.
    pub fn guards(&self) -> &[LockGuard] {
        &self.guards
    }

    /// The guard of the lock of this name.
    #[must_use]
    pub fn get(&self, name: impl AsRef<str>) -> Option<&LockGuard> {
        self.guards.iter().find(|guard| guard.name() == name.as_ref())
    }

    /// Whether all locks are held at this instant, as [`LockGuard::is_valid`] has it. Once false,
    /// it stays false.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How long all of them are certain to stay held if nothing more is heard of the store; zero
    /// when one is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(LockGuard::remaining).min().unwrap_or_default()
    }

    /// Resolves when any of the locks is lost, as [`LockGuard::lost`] does: with the name of that
    /// lock and why.
    ///
    /// # Cancel safety
    ///
    /// Safe: call it as often as you like, also from several tasks.
    ///
    /// # Examples
    ///
    /// ```
    /// # use distlock::{Client, LostReason, memory::Space};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = Client::connect("memory://docs-all-lost").await?;
    /// let all = client.lock_all(["alice", "bob"]).await?;
    /// Space::named("docs-all-lost").delete(all.guards()[1].key());
    /// assert_eq!(all.lost().await, ("bob", LostReason::KeyDeleted));
    /// assert!(!all.is_valid());
    /// # Ok(()) }
    /// ```
    pub async fn lost(&self) -> (&str, LostReason) {
        let (lost, reason) = self.first_lost().await;
        (lost.name(), reason)
    }

    async fn first_lost(&self) -> (&LockGuard, LostReason) {
        first_lost(&self.guards).await
    }

    /// Drives `future` while all of the locks are held, and drops it at the moment when one is
    /// lost: [`LockGuard::run`].
    ///
    /// # Errors
    ///
    /// [`Lost`] if a lock was lost first. The future has been dropped: what it had sent may still
    /// take effect.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops `future`. The locks stay held.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = distlock::Client::connect("memory://docs-all-run").await?;
    /// let all = client.lock_all(["alice", "bob"]).await?;
    /// let answer = all.run(async { 6 * 7 }).await?;
    /// assert_eq!(answer, 42);
    /// all.unlock().await?;
    /// # Ok(()) }
    /// ```
    pub async fn run<T>(&self, future: impl Future<Output = T>) -> Result<T, Lost> {
        let lost = async { self.lost().await.1 };
        guard::run(lost, || self.guards.iter().find_map(LockGuard::lost_reason), future).await
    }

    /// Releases all of the locks, at once. `Ok` only when all of their keys are known to be gone
    /// and each was held until then.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::unlock`], for each of them; the first error, once all were tried.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is like dropping the guard: the releases go on in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// # let client = distlock::Client::connect("memory://docs-all-unlock").await?;
    /// let all = client.lock_all(["alice", "bob"]).await?;
    /// all.unlock().await?;
    /// # Ok(()) }
    /// ```
    pub async fn unlock(self) -> Result<()> {
        join_all(self.guards.into_iter().map(LockGuard::unlock)).await.into_iter().collect()
    }
}
