//! A lock that its holder can acquire again.

use std::{fmt, ops::Deref, sync::Arc, time::Duration};

use crate::{
    error::{Error, Result},
    primitives::{
        closure::{self, Guard},
        guard::LockGuard,
        holders::Slot,
        mutex::Mutex,
    },
    queue::Wait,
};

impl Mutex {
    /// Returns a lock that a holder with this reentrancy id can acquire again.
    ///
    /// All calls with the same id share one hold, in this client and its clones. Different ids
    /// exclude each other, and so do two clients.
    ///
    /// The id is any text that names one unit of work, such as a request's id. The call does no
    /// I/O.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-reentrant").await?;
    /// let account = client.mutex("account-7").reentrant("request-42");
    /// let outer = account.lock().await?;
    /// let inner = account.lock().await?; // at once, with no request
    /// assert_eq!(inner.fencing_token(), outer.fencing_token());
    ///
    /// outer.unlock().await?;
    /// assert!(inner.is_valid());
    /// inner.unlock().await // the last one releases the lock
    /// # }
    /// ```
    #[must_use]
    pub fn reentrant(&self, reentrancy_id: impl AsRef<str>) -> ReentrantMutex {
        ReentrantMutex { mutex: self.clone(), reentrancy_id: reentrancy_id.as_ref().to_owned() }
    }
}

/// Provides a named lock that its holder can acquire again.
///
/// Created by [`Mutex::reentrant`]. A `ReentrantMutex` is cheap to create, clone and drop.
#[derive(Clone, Debug)]
pub struct ReentrantMutex {
    mutex: Mutex,
    reentrancy_id: String,
}

impl ReentrantMutex {
    /// Returns the lock's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.mutex.name()
    }

    /// Returns the reentrancy id. Guards with the same id share one hold.
    #[must_use]
    pub fn reentrancy_id(&self) -> &str {
        &self.reentrancy_id
    }

    /// Shares the hold of this id, or waits for the lock as [`Mutex::lock`] does.
    ///
    /// A hold that was lost is not shared: the call then acquires the lock again.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`].
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::lock`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-reentrant-lock").await?;
    /// let (one, two) = (client.mutex("a").reentrant("one"), client.mutex("a").reentrant("two"));
    /// let guard = one.lock().await?;
    /// assert!(two.try_lock().await?.is_none());
    /// guard.unlock().await
    /// # }
    /// ```
    pub async fn lock(&self) -> Result<ReentrantGuard> {
        // `Wait::Forever` ends with a guard or an error.
        self.acquire(Wait::Forever).await?.ok_or(Error::Closed)
    }

    /// Shares the hold of this id, or acquires a free lock; `None` otherwise.
    ///
    /// A lock is free if it has no holder and no waiters.
    ///
    /// # Errors
    ///
    /// As [`Mutex::try_lock`].
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::lock`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-reentrant-try-lock").await?;
    /// let account = client.mutex("account-7").reentrant("request-42");
    /// let outer = account.try_lock().await?.expect("it is free");
    /// assert!(account.try_lock().await?.is_some());
    /// # outer.unlock().await }
    /// ```
    pub async fn try_lock(&self) -> Result<Option<ReentrantGuard>> {
        self.acquire(Wait::No).await
    }

    /// Shares the hold of this id, or waits for the lock up to `timeout`.
    ///
    /// This method returns `None` when the time is up.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock_timeout`].
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::lock_timeout`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-reentrant-timeout").await?;
    /// let (one, two) = (client.mutex("a").reentrant("one"), client.mutex("a").reentrant("two"));
    /// let guard = one.lock().await?;
    /// assert!(two.lock_timeout(Duration::from_millis(20)).await?.is_none());
    /// # guard.unlock().await }
    /// ```
    pub async fn lock_timeout(&self, timeout: Duration) -> Result<Option<ReentrantGuard>> {
        self.acquire(Wait::at_most(timeout)).await
    }

    async fn acquire(&self, wait: Wait) -> Result<Option<ReentrantGuard>> {
        // A forked child must not use the slots.
        self.mutex.named.sessions.shared().runtime.check()?;
        let slot = self.mutex.holders.slot(self.mutex.name(), &self.reentrancy_id);
        // Another call with this id may acquire the lock first. Each call joins the queue by
        // itself, so that none depends on another one being polled.
        let guard = tokio::select! {
            biased;
            guard = slot.is_held() => Some(guard),
            taken = self.mutex.acquire(wait) => taken?.map(|guard| {
                let guard = Arc::new(guard);
                slot.set(&guard);
                guard
            }),
        };
        Ok(guard.map(|guard| ReentrantGuard { guard, _slot: slot }))
    }
}

/// Holds a reentrant lock: the guard of [`ReentrantMutex::lock`].
///
/// All guards of one hold have the same key, deadline and fencing token. When the last one is
/// dropped, the lock is released in the background, as with a [`LockGuard`].
#[must_use = "the lock is released as soon as the last guard is dropped"]
#[clippy::has_significant_drop]
pub struct ReentrantGuard {
    guard: Arc<LockGuard>,
    _slot: Arc<Slot>,
}

impl ReentrantGuard {
    /// Releases this guard, and the lock if this is the last guard of the hold.
    ///
    /// The last guard releases the lock as [`LockGuard::unlock`] does. For the other guards, `Ok`
    /// means that the lock has been held until now, as far as this process knows.
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
    /// let client = distlock::Client::connect("memory://docs-reentrant-unlock").await?;
    /// let account = client.mutex("account-7").reentrant("request-42");
    /// let (outer, inner) = (account.lock().await?, account.lock().await?);
    /// inner.unlock().await?;
    /// outer.unlock().await?;
    /// assert!(client.mutex("account-7").holder().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub async fn unlock(self) -> Result<()> {
        let lost = self.guard.lost_reason().map(|reason| self.guard.lost_error(reason));
        match Arc::into_inner(self.guard) {
            Some(last) => last.unlock().await,
            // Another guard has the hold, or a call that checks it. If that call finds the hold
            // valid, it shares it.
            None => lost.map_or(Ok(()), Err),
        }
    }

    /// Runs `future` while the lock is held, and releases this guard.
    ///
    /// This method works like [`LockGuard::run_owned`], but releases the guard as
    /// [`unlock`](Self::unlock) does.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::run_owned`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::run_owned`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-run-owned-reentrant").await?;
    /// let guard = client.mutex("a").reentrant("request-42").lock().await?;
    /// let work = tokio::spawn(guard.run_owned(async { 6 * 7 }));
    /// assert_eq!(work.await.expect("no panic")?, 42);
    /// # Ok(()) }
    /// ```
    pub async fn run_owned<T>(self, future: impl Future<Output = T>) -> Result<T> {
        let done = self.run_held(future).await?;
        closure::end(self, done).await
    }

    /// Runs a fallible `future` while the lock is held, and releases this guard.
    ///
    /// This method works like [`run_owned`](Self::run_owned), but returns a single `Result`.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::try_run_owned`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::run_owned`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-try-run-owned-reentrant").await?;
    /// let guard = client.mutex("a").reentrant("request-42").lock().await?;
    /// let work = async { Ok::<_, distlock::Error>(6 * 7) };
    /// assert_eq!(guard.try_run_owned(work).await?, 42);
    /// # Ok(()) }
    /// ```
    pub async fn try_run_owned<T, E: From<Error>>(
        self,
        future: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.run_owned(future).await?
    }
}

impl Guard for ReentrantGuard {
    async fn run_held<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        self.guard.run_held(future).await
    }

    async fn release_held(self) -> Result<()> {
        self.unlock().await
    }
}

impl Deref for ReentrantGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}

impl fmt::Debug for ReentrantGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantGuard").field("guard", &self.guard).finish()
    }
}
