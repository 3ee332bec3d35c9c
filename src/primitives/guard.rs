//! A lock that is held: how long it is valid, how its loss is told, how it is let go.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use crate::{
    backend::{error::StoreError, name::Queue, signature},
    error::{Error, Result, source},
    fencing::FencingToken,
    lost::{Lost, LostReason},
    queue::{
        Hold,
        handover::{Passing, Share},
        release::Release,
    },
    runtime::carried::Carried,
    session::{Session, own_keys::OwnKey},
    telemetry::{Account, Call, Primitive},
};

/// A lock that is held.
///
/// Between the return of `lock()` and the local deadline no other guard of this lock is valid
/// anywhere. The deadline moves on with every keepalive that the store confirms, counted from the
/// time it was sent, and passes before the store can give the lock away. What is checked once can
/// be too late the moment after: work that must never overlap carries the
/// [`fencing_token`](Self::fencing_token) to the resource it changes.
///
/// Dropping the guard releases the lock in the background, from any thread, within a runtime or
/// without one. A process that exits at once after that may leave the key to the session's TTL; to
/// be sure, await [`unlock`](Self::unlock) or [`Client::close`](crate::Client::close).
#[must_use = "the lock is released as soon as the guard is dropped"]
#[clippy::has_significant_drop]
pub struct LockGuard {
    held: Holding,
}

enum Holding {
    Own(Hold),
    /// With others of its client.
    Shared(Share),
}

impl LockGuard {
    fn new(hold: Hold) -> Self {
        Self { held: Holding::Own(hold) }
    }

    /// What a call has brought.
    pub(crate) fn of(call: Call<'_>, taken: Result<Option<Hold>>) -> Result<Option<Self>> {
        Self::told(call, taken.map(|hold| hold.map(Self::new)))
    }

    /// The same, shared with others of the client.
    pub(crate) fn shared(call: Call<'_>, taken: Result<Option<Share>>) -> Result<Option<Self>> {
        let guard = |grant| Self { held: Holding::Shared(grant) };
        Self::told(call, taken.map(|grant| grant.map(guard)))
    }

    fn told(call: Call<'_>, taken: Result<Option<Self>>) -> Result<Option<Self>> {
        let Ok(Some(mut guard)) = taken else {
            call.returned(&taken);
            return taken;
        };
        let (token, accounts) = (guard.fencing_token(), &guard.session().deadline.accounts);
        let account = call.granted(token.as_u64(), accounts, &guard.own_key().account);
        // It may have been lost a moment ago, when nobody knew of the account yet.
        account.lose(|| guard.lost_reason());
        *guard.account() = account;
        Ok(Some(guard))
    }

    fn account(&mut self) -> &mut Account {
        match &mut self.held {
            Holding::Own(hold) => &mut hold.attempt.account,
            Holding::Shared(grant) => &mut grant.account,
        }
    }

    /// What it holds, if it alone does.
    pub(crate) fn hold(&self) -> Option<&Hold> {
        match &self.held {
            Holding::Own(hold) => Some(hold),
            Holding::Shared(_) => None,
        }
    }

    pub(crate) fn session(&self) -> &Session {
        match &self.held {
            Holding::Own(hold) => hold.attempt.session(),
            Holding::Shared(grant) => grant.tenure().session(),
        }
    }

    pub(crate) fn own_key(&self) -> &OwnKey {
        match &self.held {
            Holding::Own(hold) => hold.own_key(),
            Holding::Shared(grant) => grant.tenure().own_key(),
        }
    }

    pub(crate) fn queue(&self) -> &Queue {
        match &self.held {
            Holding::Own(hold) => hold.attempt.queue(),
            Holding::Shared(grant) => grant.tenure().queue(),
        }
    }

    /// This grant's fencing token.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        FencingToken::new(match &self.held {
            Holding::Own(hold) => hold.own_key().entry.token,
            Holding::Shared(grant) => grant.token(),
        })
    }

    /// The lock's name, as it was given to [`Client::mutex`](crate::Client::mutex).
    #[must_use]
    pub fn name(&self) -> &str {
        self.queue().name()
    }

    /// The holder's key in the store, as the store's own tools show it. On etcd a transaction that
    /// compares this key's create revision with the token writes only while the lock is held. With
    /// [`local_handover`](crate::Builder::local_handover) the create revision is the token divided
    /// by 65,536, and compares equal while any guard of this client's holds the lock: only the
    /// token tells them apart. After a [`downgrade`](crate::WriteGuard::downgrade) it is another
    /// key, in the old one's place, with a create revision of its own and the old token:
    /// `etcd::compare` knows the difference.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.own_key().entry.key
    }

    /// Whether the lock is held at this instant, as far as is known: looks at the clock itself
    /// (`CLOCK_BOOTTIME` on Linux, which counts suspend), never at a flag that a timer would have
    /// had to set. Once false, it stays false.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How long the lock is certain to stay held if nothing more is heard of the store; zero when
    /// it is lost. It jumps up with every keepalive.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.own_key().lost_reason().is_some() {
            return Duration::ZERO;
        }
        self.session().deadline.remaining()
    }

    /// Its key, if it is in this store.
    #[cfg(any(
        feature = "etcd",
        feature = "mysql",
        feature = "postgres",
        feature = "redis",
        feature = "sqlite",
        feature = "zookeeper"
    ))]
    pub(crate) fn entry_in(&self, backend: &str) -> Option<&crate::backend::Entry> {
        (self.session().shared.backend.name() == backend).then_some(&self.own_key().entry)
    }

    pub(crate) fn lost_reason(&self) -> Option<LostReason> {
        self.own_key().lost_reason().or_else(|| self.session().deadline.lost_reason())
    }

    /// Resolves when the lock is lost, at the first cause and at the local deadline at the latest;
    /// never before.
    ///
    /// The end of the session is told before the store can grant the lock to anybody else. That
    /// somebody deleted the key by hand, or on etcd wrote over it without its lease, is told within
    /// 0.4 s of the grant or as soon as the store's event arrives (on MySQL, which has none, within
    /// a second), whichever is later; should the
    /// event be lost, after the [`recheck_interval`](crate::Builder::recheck_interval). The next
    /// waiter may be granted before that.
    ///
    /// It needs nothing of the caller's runtime. After a suspend of the machine it may take up to a
    /// second of running time to be told; [`is_valid`](Self::is_valid) knows at once.
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
    /// let client = Client::connect("memory://docs-lost").await?;
    /// let guard = client.mutex("a").lock().await?;
    /// Space::named("docs-lost").delete(guard.key());
    /// assert_eq!(guard.lost().await, LostReason::KeyDeleted);
    /// assert!(!guard.is_valid());
    /// # Ok(()) }
    /// ```
    pub async fn lost(&self) -> LostReason {
        tokio::select! {
            biased;
            reason = self.session().deadline.lost() => reason,
            reason = self.own_key().lost() => reason,
        }
    }

    /// Drives `future` while the lock is held, and drops it at the moment of loss.
    ///
    /// The clock is looked at before each poll: a future that wakes up after a suspend does not get
    /// to run on a lock that is gone. A future that blocks its thread cannot be stopped.
    ///
    /// # Errors
    ///
    /// [`Lost`] if the lock was lost first. The future has been dropped: what it had sent may still
    /// take effect.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops `future`. The lock stays held.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = distlock::Client::connect("memory://docs-run").await?;
    /// let guard = client.mutex("a").lock().await?;
    /// let answer = guard.run(async { 6 * 7 }).await?;
    /// assert_eq!(answer, 42);
    /// guard.unlock().await?;
    /// # Ok(()) }
    /// ```
    pub async fn run<T>(&self, future: impl Future<Output = T>) -> Result<T, Lost> {
        run(self.lost(), || self.lost_reason(), future).await
    }

    /// Drives `future` while the lock is held, and then unlocks it: a future of its own, to be
    /// spawned.
    ///
    /// What was done stays done if the release is not confirmed: that goes on in the background,
    /// as after [`unlock`](Self::unlock), and is no error here.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lock was lost before it was unlocked. If that was before the end of
    /// `future`, it has been dropped, as by [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops `future` and the guard.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = distlock::Client::connect("memory://docs-run-owned").await?;
    /// let guard = client.mutex("a").lock().await?;
    /// let work = tokio::spawn(guard.run_owned(async { 6 * 7 }));
    /// assert_eq!(work.await??, 42);
    /// # Ok(()) }
    /// ```
    pub async fn run_owned<T>(self, future: impl Future<Output = T>) -> Result<T> {
        let done = self.run(future).await;
        self.end_with(done).await
    }

    pub(crate) fn lost_error(&self, reason: LostReason) -> Error {
        Error::Lost { name: self.name().to_owned(), reason }
    }

    /// Unlocks after work that was done, whether or not that is confirmed soon.
    pub(crate) async fn end_with<T>(self, done: Result<T, Lost>) -> Result<T> {
        let name = self.name().to_owned();
        let done = done.map_err(|Lost { reason }| Error::Lost { name, reason })?;
        match self.unlock().await {
            Err(error @ Error::Lost { .. }) => Err(error),
            _ => Ok(done),
        }
    }

    /// Puts a key with another label into the place of this guard's.
    pub(crate) async fn relabel(self, label: &'static str, to: Primitive) -> Result<Self> {
        if let Some(reason) = self.lost_reason() {
            return Err(self.lost_error(reason));
        }
        let Holding::Own(hold) = self.held else { return Ok(self) };
        let session = Arc::clone(hold.attempt.session());
        let (runtime, name) = (&session.shared.runtime, hold.attempt.queue().name().to_owned());
        let value = signature::write(&session.shared.owner);
        let relabelling =
            Carried::whole(runtime, async move { hold.attempt.relabel(label, &value).await });
        let attempt = runtime.within(relabelling).await.map_err(|error| match error {
            StoreError::SessionGone(reason) => {
                session.deadline.lose(reason);
                Error::Lost {
                    name: name.clone(),
                    reason: session.deadline.lost_reason().unwrap_or(reason),
                }
            }
            error => error.into_public(session.shared.backend.name()),
        })?;
        let own_key = attempt.own_key().map(Arc::clone).ok_or(Error::Closed)?;
        let mut guard = Self::new(Hold::new(attempt, own_key));
        guard.account().relabelled(to);
        match guard.lost_reason() {
            Some(reason) => Err(Error::Lost { name, reason }),
            None => Ok(guard),
        }
    }

    /// Releases the lock. `Ok` only when its key is known to be gone and the lock was held until
    /// then.
    ///
    /// Only this guard's own key is deleted, so that a late or repeated attempt never touches a
    /// successor. With [`local_handover`](crate::Builder::local_handover) `Ok` may mean instead
    /// that the lock was held until it was passed on to another caller of this client.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lock had been lost before: somebody else may have held it meanwhile.
    /// [`Error::ReleaseUnconfirmed`] if the store has not confirmed within twice the
    /// [`request_timeout`](crate::Builder::request_timeout), [`Error::Denied`] as soon as it
    /// refuses to delete the key: the release goes on in the background until it is confirmed or
    /// the session is over.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is like dropping the guard: the release goes on in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// # let client = distlock::Client::connect("memory://docs-unlock").await?;
    /// let guard = client.mutex("a").lock().await?;
    /// guard.unlock().await?;
    /// # Ok(()) }
    /// ```
    pub async fn unlock(mut self) -> Result<()> {
        let not_passed = match &mut self.held {
            Holding::Own(_) => None,
            Holding::Shared(grant) => match grant.pass_on().await {
                Passing::Passed => return Ok(()),
                Passing::LetGo(hold) => Some(hold),
                Passing::Over | Passing::Undecided => None,
            },
        };
        let (lost, queue) = (self.lost_reason(), self.queue().clone());
        let name = || queue.name().to_owned();
        let hold = match self.held {
            Holding::Own(hold) => Some(hold),
            Holding::Shared(_) => not_passed,
        };
        if let Some(hold) = &hold {
            hold.attempt.account.lose(|| lost);
        }
        let Some(hold) = hold else {
            // It was let go of already, as happens only when a lock is lost.
            return Err(Error::Lost {
                name: name(),
                reason: lost.unwrap_or(LostReason::DeadlinePassed),
            });
        };
        let shared = &hold.attempt.session().shared;
        let (runtime, patience) = (shared.runtime.clone(), shared.patience());
        let backend = shared.backend.name();
        runtime
            .within(async move {
                let outcome = hold.attempt.release_within(patience).await;
                match (lost, outcome) {
                    (Some(reason), _) | (None, Release::SessionOver(reason)) => {
                        Err(Error::Lost { name: name(), reason })
                    }
                    (None, Release::Absent) => {
                        Err(Error::Lost { name: name(), reason: LostReason::KeyDeleted })
                    }
                    (None, Release::Released) => Ok(()),
                    (None, Release::Refused(refusal)) => {
                        Err(Error::Denied { backend, source: source(refusal) })
                    }
                    (None, Release::Trying(error)) => {
                        let source = source(error.unwrap_or_else(|| "no answer yet".into()));
                        Err(Error::ReleaseUnconfirmed { name: name(), source })
                    }
                }
            })
            .await
    }
}

/// Drives `future` until the lock is lost, as the one tells in time and the other looks up.
pub(crate) async fn run<T>(
    lost: impl Future<Output = LostReason>,
    look: impl Fn() -> Option<LostReason>,
    future: impl Future<Output = T>,
) -> Result<T, Lost> {
    let mut future = pin!(future);
    let mut lost = pin!(lost);
    poll_fn(|context| {
        if let Poll::Ready(reason) = lost.as_mut().poll(context) {
            return Poll::Ready(Err(Lost { reason }));
        }
        if let Some(reason) = look() {
            return Poll::Ready(Err(Lost { reason }));
        }
        future.as_mut().poll(context).map(Ok)
    })
    .await
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("name", &self.name())
            .field("key", &self.key())
            .field("fencing_token", &self.fencing_token().as_u64())
            .field("remaining", &self.remaining())
            .finish()
    }
}
