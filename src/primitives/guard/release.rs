//! How a guard releases its lock, or replaces its key.

use std::sync::Arc;

use super::LockGuard;
use crate::{
    backend::{error::StoreError, signature},
    error::{Error, Result, source},
    lost::LostReason,
    queue::{self, Hold, release::Release},
    runtime::carried::Carried,
    telemetry::Primitive,
};

impl LockGuard {
    /// Replaces this guard's key with a key that has another label.
    pub(crate) async fn relabel(self, label: &'static str, to: Primitive) -> Result<Self> {
        if let Some(reason) = self.lost_reason() {
            return Err(self.lost_error(reason));
        }
        let (session, name) = (Arc::clone(&self.held.session), self.name().to_owned());
        let lost_error = |reason| Error::Lost { name: name.clone(), reason };
        let (runtime, until) = (&session.shared.runtime, self.held.own.holds_until());
        let since = self.held.since;
        let Some(attempt) = self.give_up() else { return Err(Error::Closed) };
        let value = signature::write(&session.shared.owner);
        let relabelling =
            Carried::whole(runtime, async move { attempt.relabel(label, &value).await });
        let relabelled = runtime.within(async { Ok(relabelling.await) }).await?;
        let attempt = relabelled.map_err(|error| match error {
            StoreError::SessionGone(reason) => {
                session.deadline.lose(reason);
                lost_error(session.deadline.lost_reason().unwrap_or(reason))
            }
            error => error.into_public(session.shared.backend.kind()),
        })?;
        let own_key = attempt.own_key().map(Arc::clone).ok_or(Error::Closed)?;
        attempt.account.relabelled(to);
        if let Some(until) = until {
            queue::hold_until(&attempt, &own_key, until);
        }
        let guard = Self::new(Hold { attempt, own: own_key, since });
        match guard.lost_reason() {
            Some(reason) => Err(lost_error(reason)),
            None => Ok(guard),
        }
    }

    /// Releases the lock.
    ///
    /// This method returns `Ok` only if the key is known to be deleted and the lock was held until
    /// then. There are four exceptions:
    ///
    /// - If the reply to a release request is lost, the client repeats the request. If the key is
    ///   then gone, the client cannot distinguish its own deletion from an earlier eviction, and
    ///   the method returns `Ok`.
    /// - On ZooKeeper, the method may also return `Ok` just after an operator has evicted the
    ///   holder by deleting the lock's directory.
    /// - With a bridge on Redis, the method also returns `Ok` if the other libraries' key was
    ///   deleted or taken over after the last keepalive.
    /// - On Redlock, `Ok` means that a majority of the nodes no longer stores the lock. The method
    ///   may also return `Ok` just after an operator has evicted the holder.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lock was lost before it was released. Another client may have held it
    /// since. [`Error::ReleaseUnconfirmed`] if the store has not confirmed the release within twice
    /// the [`request_timeout`](crate::Builder::request_timeout), or if the client's runtime is shut
    /// down during the call. [`Error::Denied`] as soon as the store denies access to the key.
    /// After the last two errors, the release continues in the background until it is confirmed,
    /// the session has ended, or the runtime is shut down. On Redlock, it continues for at most 1.5
    /// TTL.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is like dropping the guard: the release continues in the background.
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
    pub async fn unlock(self) -> Result<()> {
        let (lost, queue) = (self.lost_reason(), self.held.queue.clone());
        let name = || queue.name().to_owned();
        let lost_error = |reason| Error::Lost { name: name(), reason };
        if let Some(reason) = lost
            && self.held.session.shared.runtime.check().is_err()
        {
            return Err(lost_error(reason));
        }
        let Some(attempt) = self.give_up() else {
            return Err(lost_error(lost.unwrap_or(LostReason::Released)));
        };
        attempt.account.lose(|| lost);
        let shared = &attempt.session.shared;
        let (runtime, patience) = (shared.runtime.clone(), shared.patience());
        let backend = shared.backend.kind();
        let releasing = async {
            match (lost, attempt.release_within(patience).await) {
                (Some(reason), _) | (None, Release::SessionOver(reason)) => Err(lost_error(reason)),
                (None, Release::Absent) => Err(lost_error(LostReason::Evicted)),
                (None, Release::Released) => Ok(()),
                (None, Release::Refused(refusal)) => {
                    Err(Error::Denied { backend, source: source(refusal) })
                }
                (None, Release::Trying(error)) => {
                    let source = source(error.unwrap_or_else(|| "no reply yet".into()));
                    Err(Error::ReleaseUnconfirmed { name: name(), source })
                }
            }
        };
        runtime.within(releasing).await.map_err(|error| match (error, lost) {
            // The runtime was shut down during the release.
            (Error::Runtime { .. }, Some(reason)) => lost_error(reason),
            (Error::Runtime { source }, None) => Error::ReleaseUnconfirmed { name: name(), source },
            (error, _) => error,
        })
    }
}
