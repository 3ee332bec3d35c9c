//! Several locks, acquired together: all or none.

mod guarded;
mod run;

use std::{pin::pin, time::Duration};

use futures_util::{
    future::{join_all, select_all},
    stream::{FuturesUnordered, StreamExt},
};

use crate::{
    backend::{Standing, error::StoreError, name::Queue},
    error::{Error, Result},
    lost::LostReason,
    primitives::{
        guard::{Held, LockGuard},
        named::Named,
        viewer::LockKind,
    },
    queue::{self, Failure, Hold, RELEASE_WAIT, Wait, acquire::take, attempt::Attempt, mode::Mode},
    runtime::{
        carried::Carried,
        clock::{Instant, timeout},
    },
    session::{Sessions, eviction::WATCH_AFTER},
    telemetry::{Call, Primitive},
};

/// The maximum number of queues that one request joins. etcd accepts 128 operations by default, and
/// each queue may need several.
const AT_ONCE: usize = 32;

/// Holds several locks that were acquired together.
///
/// Created by [`Client::lock_all`](crate::Client::lock_all) and by a
/// [`MultiLock`](crate::MultiLock).
///
/// Dropping the guard releases all of the locks in the background, as dropping a [`LockGuard`]
/// does.
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
pub struct MultiLockGuard {
    guards: Vec<LockGuard>,
}

/// Several locks that are about to be acquired.
pub(crate) struct Several {
    sessions: Sessions,
    /// In the order in which all clients acquire them.
    queues: Vec<Queue>,
    limit: Option<Duration>,
}

impl Several {
    pub(crate) fn new(
        sessions: Sessions,
        names: impl IntoIterator<Item: AsRef<str>>,
        limit: Option<Duration>,
    ) -> Result<Self> {
        let shared = sessions.shared();
        shared.must_queue("multi-locks")?;
        let queues = names.into_iter().map(|name| shared.mutex(name.as_ref()));
        let mut queues = queues.collect::<Result<Vec<_>>>()?;
        queues.sort_unstable_by(|one, other| one.dir().cmp(other.dir()));
        queues.dedup();
        if queues.is_empty() {
            return Err(Error::invalid("name", "pass at least one name"));
        }
        Ok(Self { sessions, queues, limit })
    }

    pub(crate) async fn take(&self, wait: Wait) -> Result<Option<MultiLockGuard>> {
        let taking = || async {
            let taken = match self.at_once(wait).await? {
                Some(guards) => Some(MultiLockGuard { guards }),
                None if wait.has_passed() => None,
                None => self.one_by_one(wait).await?,
            };
            Ok(taken.inspect(|all| all.limit(self.limit)))
        };
        wait.bounds(&self.sessions, taking).await
    }

    /// Acquires all locks in one request. `None` if they are not all free, or if one request cannot
    /// show that.
    async fn at_once(&self, wait: Wait) -> Result<Option<Vec<LockGuard>>> {
        if !(2..=AT_ONCE).contains(&self.queues.len()) {
            return Ok(None);
        }
        let telemetry = self.sessions.shared().telemetry;
        let call = |name| Call::new(telemetry, Primitive::Mutex, name, wait.is_a_try());
        // Each lock is reported as its own call.
        let calls: Vec<_> = self.queues.iter().map(Queue::name).map(call).collect();
        let taking = pin!(self.hold_at_once(wait));
        let taken = calls[0].within(taking).await;
        let calls = calls.into_iter();
        match taken {
            Ok(Some(holds)) => {
                let guards =
                    calls.zip(holds).map(|(call, hold)| LockGuard::of(call, Ok(Some(hold)), None));
                guards.collect()
            }
            // The locks are acquired one by one next, which reports other calls.
            Ok(None) if !wait.has_passed() => {
                calls.for_each(Call::forget);
                Ok(None)
            }
            taken => {
                calls.for_each(|call| call.returned(&taken));
                taken.map(|_| None)
            }
        }
    }

    async fn hold_at_once(&self, wait: Wait) -> Result<Option<Vec<Hold>>> {
        let attempts = async {
            let first = Attempt::new(&self.sessions, &self.queues[0]).await?;
            // All attempts share one session.
            let rest = self.queues[1..]
                .iter()
                .map(|queue| Attempt::in_session(&first.session, queue))
                .collect::<Option<Vec<_>>>();
            Ok::<_, Error>(rest.map(|rest| std::iter::once(first).chain(rest).collect::<Vec<_>>()))
        };
        let Some(attempts) = wait.before(attempts).await.transpose()?.flatten() else {
            return Ok(None);
        };
        // If this future is dropped, the write still completes. The attempts are dropped after it.
        let joining = Carried::whole(&self.sessions.shared().runtime, Attempt::join_all(attempts));
        let Some(joined) = wait.before(joining).await else { return Ok(None) };
        let entered = match joined {
            Ok(Some(entered)) => entered,
            // One by one, there are more attempts, and new sessions.
            Ok(None) | Err(StoreError::Unavailable(_) | StoreError::SessionGone(_)) => {
                return Ok(None);
            }
            // The request may have been applied. Its keys are about to be deleted, so a caller that
            // waits acquires the locks one by one.
            Err(StoreError::Unknown(_)) if !matches!(wait, Wait::No) => return Ok(None),
            Err(error) => return Err(error.into_public(self.sessions.shared().backend.kind())),
        };
        let mut holds = Vec::with_capacity(entered.len());
        for entered in entered {
            match queue::hold(entered, wait, Mode::Exclusive).await {
                Ok(Some(hold)) => holds.push(hold),
                Ok(None) => return Ok(None),
                Err(Failure::StaleSession(error) | Failure::Final(error)) => return Err(error),
            }
        }
        Ok(Some(holds))
    }

    async fn one_by_one(&self, wait: Wait) -> Result<Option<MultiLockGuard>> {
        let began = Instant::now();
        let mut all = MultiLockGuard { guards: Vec::with_capacity(self.queues.len()) };
        // Of many locks, a wake-up polls only those that may be lost.
        let mut losses = FuturesUnordered::new();
        for queue in &self.queues {
            let mutex = Named::new(&self.sessions, LockKind::Mutex, queue.name());
            let taking = pin!(take(&self.sessions, queue, wait));
            let taken = tokio::select! {
                biased;
                Some((lost, reason)) = losses.next() => return Err(forgone(&lost, reason)),
                taken = mutex.take(Primitive::Mutex, None, wait, taking) => taken?,
            };
            match taken {
                Some(guard) => {
                    let view = guard.view();
                    losses.push(async move {
                        let reason = view.lost().await;
                        (view, reason)
                    });
                    all.guards.push(guard);
                }
                None => {
                    // The release continues in the background in any case.
                    let _ = timeout(RELEASE_WAIT, all.unlock()).await;
                    return Ok(None);
                }
            }
        }
        if began.elapsed() < WATCH_AFTER || all.are_there(wait).await? {
            return Ok(Some(all));
        }
        let _ = timeout(RELEASE_WAIT, all.unlock()).await;
        Ok(None)
    }
}

/// Returns the error of a caller that lost one lock while it waited for another. It has no guard
/// yet, so no work was done under the lock.
fn forgone(lost: &LockGuard, reason: LostReason) -> Error {
    match reason {
        LostReason::Evicted => Error::Evicted { name: lost.name().to_owned() },
        reason => lost.held.session.lost_error(reason),
    }
}

impl MultiLockGuard {
    /// Limits how long all of the locks are held, counted from the grant of the last lock. The
    /// program does no work under the other locks before that.
    fn limit(&self, limit: Option<Duration>) {
        let since = self.guards.iter().map(|guard| guard.held.since).max().unwrap_or_default();
        self.guards.iter().for_each(|guard| guard.limit(limit, since));
    }

    /// Checks all keys except the last. An operator may have evicted them while the last lock was
    /// awaited, and the notification is lost if the connection was lost. Returns `false` if the
    /// caller's time is up.
    async fn are_there(&self, wait: Wait) -> Result<bool> {
        let earlier = self.guards.split_last().map_or(&[][..], |(_, earlier)| earlier);
        let looks = earlier.iter().map(async |guard| {
            let Held { session, own, .. } = &*guard.held;
            let look = session.ask(|| session.store.standing(&own.entry));
            match wait.spend_on(session, look).await {
                Ok(Some(Standing::Evicted)) => {
                    own.lose(LostReason::Evicted);
                    Err(forgone(guard, LostReason::Evicted))
                }
                Ok(answer) => Ok(answer.is_some()),
                Err(Failure::StaleSession(error) | Failure::Final(error)) => Err(error),
            }
        });
        let there = join_all(looks).await.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(there.into_iter().all(|in_time| in_time))
    }

    /// Returns the guards, in the order in which the locks were acquired.
    ///
    /// Each guard has its own fencing token. A [`write`](LockGuard::write) through one guard is
    /// applied only if that guard's lock is held. [`MultiLockGuard::write`](Self::write) is applied
    /// only if all locks are held.
    pub fn guards(&self) -> &[LockGuard] {
        &self.guards
    }

    /// Returns the guard of the lock with this name.
    #[must_use]
    pub fn get(&self, name: impl AsRef<str>) -> Option<&LockGuard> {
        self.guards.iter().find(|guard| guard.name() == name.as_ref())
    }

    /// Returns `true` if all locks are held now, as far as this process knows.
    ///
    /// Like [`LockGuard::is_valid`], this method never returns `true` again once it has returned
    /// `false`.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Returns how long all locks stay valid if no further keepalive succeeds.
    ///
    /// The result is zero once any of the locks is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(LockGuard::remaining).min().unwrap_or_default()
    }

    /// Resolves when any of the locks is lost, with its name and the reason.
    ///
    /// [`LockGuard::lost`] documents how soon a loss is reported.
    ///
    /// # Cancel safety
    ///
    /// Safe. The method can be called any number of times, also from several tasks.
    ///
    /// # Examples
    ///
    /// ```
    /// # use distlock::{Client, LostReason, memory::Space};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = Client::connect("memory://docs-all-lost").await?;
    /// let all = client.lock_all(["alice", "bob"]).await?;
    /// Space::named("docs-all-lost").delete(all.guards()[1].key());
    /// assert_eq!(all.lost().await, ("bob", LostReason::Evicted));
    /// assert!(!all.is_valid());
    /// # Ok(()) }
    /// ```
    pub async fn lost(&self) -> (&str, LostReason) {
        let (lost, reason) = self.first_lost().await;
        (lost.name(), reason)
    }

    async fn first_lost(&self) -> (&LockGuard, LostReason) {
        let guards = self.guards.iter();
        let each: Vec<_> =
            guards.map(|guard| Box::pin(async move { (guard, guard.lost().await) })).collect();
        select_all(each).await.0
    }

    /// Returns the first lock that is lost, and the reason.
    pub(crate) fn loss(&self) -> Option<(&LockGuard, LostReason)> {
        self.guards.iter().find_map(|guard| Some((guard, guard.lost_reason()?)))
    }

    /// Releases all of the locks concurrently.
    ///
    /// This method returns `Ok` only if [`LockGuard::unlock`] returns `Ok` for each lock.
    ///
    /// # Errors
    ///
    /// The first [`Error::Lost`] of [`LockGuard::unlock`], or its first other error if no lock was
    /// lost. The call tries to release every lock before it returns.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is like dropping the guard: the releases continue in the background.
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
        let released = join_all(self.guards.into_iter().map(LockGuard::unlock)).await;
        let is_lost = |one: &Result<()>| matches!(one, Err(Error::Lost { .. }));
        let (lost, others): (Vec<_>, Vec<_>) = released.into_iter().partition(is_lost);
        lost.into_iter().chain(others).collect()
    }
}

#[cfg(test)]
mod tests;
