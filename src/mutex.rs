//! A named lock.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::time::timeout_at;

use crate::{
    client::Client,
    error::{Error, Result},
    guard::LockGuard,
    line::{self, Rule},
    name::Queue,
    queue::{self, Failure, Hold, Wait},
    runtime,
};

/// A named lock: the right to stand in its queue. Made by [`Client::mutex`]; cheap to make, to clone and to throw away.
///
/// A `Mutex` holds nothing by itself, so two of the same name exclude each other wherever they are: in one task,
/// in one process or on two machines. Locking twice in one task waits for oneself: there is no reentrancy.
#[derive(Clone, Debug)]
pub struct Mutex {
    client: Client,
    name: String,
}

impl Mutex {
    pub(crate) fn new(client: Client, name: String) -> Self {
        Self { client, name }
    }

    /// The name as it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for its turn, first come first served, however long that takes.
    ///
    /// An uncontended lock costs one round trip. A waiter behind another process watches the one key ahead of its own, one behind a caller of this client needs no watch; it sends nothing while it waits, except
    /// for a look every [`recheck_interval`](crate::Builder::recheck_interval).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`] at once. [`Error::SessionLost`] if the session ends while waiting, because its server says so or
    /// because none has answered for a TTL: the place in the queue is lost, lock again. [`Error::Evicted`] if somebody deletes the waiter's key.
    /// [`Error::Unavailable`] if a new session was needed and could not be opened within the
    /// [`connect_timeout`](crate::Builder::connect_timeout). [`Error::Denied`], [`Error::Backend`] and [`Error::Closed`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue. What it wrote is deleted by the session in the background, so
    /// nothing stays behind in the store and the next waiter moves up. Dropped before its first poll, it has sent nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-lock").await?;
    /// let guard = client.mutex("nightly-report").lock().await?;
    /// assert!(guard.is_valid());
    /// guard.unlock().await?;
    /// # Ok(()) }
    /// ```
    pub async fn lock(&self) -> Result<LockGuard> {
        // Waiting for ever ends with a guard or an error.
        self.acquire(Wait::Forever).await?.ok_or(Error::Closed)
    }

    /// Takes the lock if nobody holds it or waits for it; `None` if somebody does.
    ///
    /// It leaves nothing behind. A busy lock costs one request on etcd and three on ZooKeeper (a look, and another one at the newest state, lest a server that
    /// lags behind take a lock for busy that was just released). None of them writes, unless another client joins in the same instant.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock); [`Error::Unavailable`] if the store does not answer within about twice the
    /// [`request_timeout`](crate::Builder::request_timeout).
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-try-lock").await?;
    /// let mutex = client.mutex("leader");
    /// let guard = mutex.try_lock().await?.expect("nobody else is here");
    /// assert!(mutex.try_lock().await?.is_none());
    /// # guard.unlock().await }
    /// ```
    pub async fn try_lock(&self) -> Result<Option<LockGuard>> {
        self.acquire(Wait::No).await
    }

    /// Waits for its turn, but no longer than `timeout`; `None` when the time is up.
    ///
    /// The timeout covers all of it, also the opening of a new session. A timeout of zero is a [`try_lock`](Self::try_lock).
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock). When the time is up the key is deleted just as if the future had been dropped; the call waits at most 100 ms for that.
    /// With [`local_handover`](crate::Builder::local_handover) it does not wait for it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::{pin::pin, sync::Arc, time::Duration};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-lock-timeout").await?;
    /// let mutex = client.mutex("table-7");
    /// let guard = mutex.lock().await?;
    /// assert!(mutex.lock_timeout(Duration::from_millis(20)).await?.is_none());
    /// # guard.unlock().await }
    /// ```
    pub async fn lock_timeout(&self, timeout: Duration) -> Result<Option<LockGuard>> {
        self.acquire(Wait::at_most(timeout)).await
    }

    pub(crate) async fn acquire(&self, wait: Wait) -> Result<Option<LockGuard>> {
        if let Some(handover) = self.client.handover() {
            return Ok(handover.acquire(&self.client, &self.name, wait).await?.map(LockGuard::shared));
        }
        let queue = Queue::new(self.client.namespace(), &self.name)?;
        // Pinned here: handed over by value it would have its room in this future twice.
        let taking = pin!(take(&self.client, &queue, wait));
        Ok(runtime::within(self.client.runtime(), taking).await?.map(LockGuard::new))
    }
}

/// Takes the lock from the store.
pub(crate) async fn take(client: &Client, queue: &Queue, wait: Wait) -> Result<Option<Hold>> {
    Taking { queue, wait, value: None, rule: None }.from(client).await
}

/// What to take from the store, and how.
pub(crate) struct Taking<'a> {
    pub(crate) queue: &'a Queue,
    pub(crate) wait: Wait,
    /// What to write into the key, if not who owns it.
    pub(crate) value: Option<Arc<[u8]>>,
    /// Who may be in together, if not one at a time.
    pub(crate) rule: Option<&'a dyn Rule>,
}

impl Taking<'_> {
    pub(crate) async fn from(self, client: &Client) -> Result<Option<Hold>> {
        let Self { queue, wait, value, rule } = self;
        let mut stale_sessions = 0;
        loop {
            let claim = match wait {
                Wait::Until(at) => timeout_at(at, client.claim(queue)).await,
                Wait::Forever | Wait::No => Ok(client.claim(queue).await),
            };
            let Ok(claim) = claim else { return Ok(None) };
            let mut claim = claim?;
            claim.set_value(value.clone());
            let taken = match rule {
                None => queue::acquire(claim, wait).await,
                // On the heap: it is larger than what a mutex needs, of which there may be many.
                Some(rule) => Box::pin(line::enter(claim, wait, rule)).await,
            };
            match taken {
                Ok(hold) => return Ok(hold),
                // Its session died while it was idle. That is no loss of this call's: it goes on with a new one.
                Err(Failure::StaleSession(_)) if stale_sessions < 3 => stale_sessions += 1,
                Err(Failure::StaleSession(error) | Failure::Final(error)) => return Err(error),
            }
        }
    }
}
