//! The right to lead.

use std::{ops::Deref, sync::Arc};

use tokio::sync::{Mutex as AsyncMutex, oneshot};

use crate::{
    backend::{Rewrite, Rewritten, error::StoreError},
    error::{Error, Result},
    lost::LostReason,
    primitives::guard::{Held, LockGuard},
    runtime::{carried::Carried, mutex::Mutex},
};

/// The longest value, in bytes. A read of the leader returns the values of all candidates.
const MAX_VALUE: usize = 16 << 10;

/// Returns the value if it is not too long.
pub(super) fn checked(value: &[u8]) -> Result<Arc<[u8]>> {
    if value.len() > MAX_VALUE {
        let reason = "must be at most 16 KiB, because every read of the leader returns it; for \
                      more data, publish where to find it";
        return Err(Error::invalid("value", reason));
    }
    Ok(value.into())
}

/// Holds the lead of an [`Election`](crate::Election).
///
/// A leadership is a [`LockGuard`]: dropping it resigns in the background.
#[derive(Debug)]
#[must_use = "the leader resigns as soon as the `Leadership` is dropped"]
pub struct Leadership {
    guard: LockGuard,
    /// Orders the calls of [`proclaim`](Self::proclaim). Once the key was written to, it contains
    /// the last known version of the key.
    turn: Arc<AsyncMutex<Option<u64>>>,
}

impl Leadership {
    pub(super) fn new(guard: LockGuard) -> Self {
        Self { guard, turn: Arc::default() }
    }

    /// Publishes another value without losing the lead.
    ///
    /// The value may be at most 16 KiB long. The call returns `Ok` once the store has confirmed the
    /// value.
    ///
    /// Of two concurrent calls, the second waits for the first.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lead was lost. [`Error::Unavailable`] if the store has not confirmed
    /// the value within twice the [`request_timeout`](crate::Builder::request_timeout). The
    /// candidate may still lead, and the value may have been written, or may be written later, but
    /// not over a later value. [`Error::WriteUnconfirmed`] if the client's runtime was shut down
    /// during the call. [`Error::InvalidArgument`] if the value is too long, before anything is
    /// sent. [`Error::Denied`] and [`Error::Backend`] if the store refused the value.
    ///
    /// # Cancel safety
    ///
    /// A call that is dropped before its first poll, or while it waits for an earlier call, sends
    /// nothing. Otherwise, the call continues in the background.
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
        if let Some(reason) = self.guard.lost_reason() {
            return Err(self.guard.lost_error(reason));
        }
        let (held, turn) = (Arc::clone(&self.guard.held), Arc::clone(&self.turn));
        let runtime = &self.guard.held.session.shared.runtime;
        let (interest, _interested) = oneshot::channel::<()>();
        let work = Carried::whole(runtime, async move {
            let mut turn = turn.lock_owned().await;
            // The caller was dropped before its turn came: nothing is sent.
            if interest.is_closed() {
                return Err(Error::Closed);
            }
            rewrite(&held, &value, &mut turn).await
        });
        runtime.within(work).await.map_err(|error| match error {
            // The request may have been sent.
            Error::Runtime { source } => {
                Error::WriteUnconfirmed { name: self.guard.name().to_owned(), source }
            }
            error => error,
        })
    }

    /// Returns a handle to this lead for other tasks.
    ///
    /// The handle does not keep the lead, and can be cloned. Unlike the result of
    /// [`LockGuard::handle`], it can also [`proclaim`](Self::proclaim).
    #[must_use]
    pub fn handle(&self) -> LeadershipHandle {
        LeadershipHandle(self.view())
    }

    fn view(&self) -> Self {
        Self { guard: self.guard.view(), turn: Arc::clone(&self.turn) }
    }

    /// Resigns, so that the next candidate leads: see [`LockGuard::unlock`].
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

    /// Runs `future` while the candidate leads, and resigns.
    ///
    /// This method works like [`LockGuard::run_owned`].
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
    /// let client = distlock::Client::connect("memory://docs-run-owned-leader").await?;
    /// let leadership = client.election("scheduler").campaign("one").await?;
    /// let work = tokio::spawn(leadership.run_owned(async { 6 * 7 }));
    /// assert_eq!(work.await.expect("no panic")?, 42);
    /// # Ok(()) }
    /// ```
    pub async fn run_owned<T>(self, future: impl Future<Output = T>) -> Result<T> {
        self.guard.run_owned(future).await
    }

    /// Runs a fallible `future` while the candidate leads, and resigns.
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
    /// let client = distlock::Client::connect("memory://docs-try-run-owned-leader").await?;
    /// let leadership = client.election("scheduler").campaign("one").await?;
    /// let work = async { Ok::<_, distlock::Error>(6 * 7) };
    /// assert_eq!(leadership.try_run_owned(work).await?, 42);
    /// # Ok(()) }
    /// ```
    pub async fn try_run_owned<T, E: From<Error>>(
        self,
        future: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.guard.try_run_owned(future).await
    }
}

impl Deref for Leadership {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}

/// Gives other tasks access to a [`Leadership`].
///
/// Created by [`Leadership::handle`], and passed to the work of
/// [`Election::run`](crate::Election::run). The handle is owned and can be cloned.
///
/// The handle has all methods of a leadership that take `&self`. Methods that take the leadership
/// itself, such as [`resign`](Leadership::resign), are not available. Dropping the handle does not
/// end the leadership. Once the leader has resigned, the handle is invalid.
#[derive(Debug)]
pub struct LeadershipHandle(Leadership);

impl Clone for LeadershipHandle {
    fn clone(&self) -> Self {
        Self(self.0.view())
    }
}

impl Deref for LeadershipHandle {
    type Target = Leadership;

    fn deref(&self) -> &Leadership {
        &self.0
    }
}

/// Writes a value over a named version of the key. So an attempt that was given up cannot be
/// applied after a later one, however long it was delayed.
async fn rewrite(held: &Held, value: &[u8], version: &mut Option<u64>) -> Result<()> {
    let (session, own_key) = (&held.session, &held.own);
    let known = Mutex::new(*version);
    let request = || async {
        let version = *known.lock();
        let rewrite = Rewrite { ticket: held.ticket, entry: &own_key.entry, value, version };
        match session.store.ask("rewrite", |store| store.rewrite(rewrite)).await? {
            Rewritten::Done(now) => {
                *known.lock() = Some(now);
                Ok(true)
            }
            // It was written by an attempt whose reply was lost, or by an operator.
            Rewritten::Not(now) => {
                *known.lock() = Some(now);
                Err(StoreError::Unavailable("another write was applied first".into()))
            }
            Rewritten::Gone => {
                own_key.evicted();
                Ok(false)
            }
        }
    };
    let written = tokio::select! {
        biased;
        _ = own_key.lost() => Ok(false),
        written = session.ask_briefly(request) => written,
    };
    *version = *known.lock();
    let reason = match own_key.lost_reason().or_else(|| session.deadline.lost_reason()) {
        Some(reason) => reason,
        // The leader has resigned.
        None if matches!(written, Ok(false)) => LostReason::Released,
        None => return written.map(drop).map_err(|error| session.public(error)),
    };
    Err(Error::Lost { name: held.queue.name().to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Client;

    /// A handle publishes a value while the leader resigns. No operator has evicted the leader.
    #[tokio::test]
    async fn value_refused_after_resignation_is_no_eviction() {
        let client = Client::connect("memory://value-after-resignation").await.unwrap();
        let leadership = client.election("a").campaign("one").await.unwrap();
        let held = Arc::clone(&leadership.held);
        leadership.resign().await.unwrap();
        let late = rewrite(&held, b"two", &mut None).await;
        assert!(matches!(late, Err(Error::Lost { reason: LostReason::Released, .. })), "{late:?}");
        assert_eq!(held.own.lost_reason(), None);
    }
}
