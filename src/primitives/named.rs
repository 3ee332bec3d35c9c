//! The common part of mutexes, read-write locks, semaphores and elections.

use std::{sync::OnceLock, time::Duration};

use crate::{
    backend::name::Queue,
    error::Result,
    primitives::{
        guard::LockGuard,
        max_hold::checked,
        queue_entry::QueueEntry,
        queue_watch::QueueWatch,
        release_request,
        viewer::{LockKind, Viewer},
    },
    queue::{Hold, Wait},
    session::Sessions,
    telemetry::{Call, Primitive},
};

/// A name in a client's namespace, and the kind of lock that it names.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(super) sessions: Sessions,
    kind: LockKind,
    pub(super) name: String,
    pub(super) max_hold: Option<Duration>,
    /// Set when it is first needed.
    queue: OnceLock<Queue>,
}

impl Named {
    pub(crate) fn new(sessions: &Sessions, kind: LockKind, name: impl AsRef<str>) -> Self {
        let (sessions, name) = (sessions.clone(), name.as_ref().to_owned());
        Self { sessions, kind, name, max_hold: None, queue: OnceLock::new() }
    }

    /// Returns the queue of the name. An error if the name is invalid, or if the store does not
    /// have this kind of lock.
    pub(super) fn queue(&self) -> Result<Queue> {
        let Some(queue) = self.queue.get() else {
            let shared = self.sessions.shared();
            let queue = match self.kind {
                LockKind::Mutex => shared.mutex(&self.name),
                LockKind::RwLock => shared.queue(&self.name, "read-write locks"),
                LockKind::Semaphore => shared.queue(&self.name, "semaphores"),
                LockKind::Election => shared.queue(&self.name, "elections"),
            }?;
            return Ok(self.queue.get_or_init(|| queue).clone());
        };
        Ok(queue.clone())
    }

    /// Returns the maximum hold time. An error if it is invalid, before anything is sent.
    pub(super) fn limit(&self) -> Result<Option<Duration>> {
        checked(self.max_hold)
    }

    /// Refuses an operation that needs a queue on a store without queues.
    pub(super) fn must_queue(&self, operation: &'static str) -> Result<()> {
        self.sessions.shared().must_queue(operation)
    }

    fn viewer(&self) -> Result<Viewer> {
        if self.kind == LockKind::Mutex {
            self.must_queue("queues")?;
        }
        Ok(Viewer::new(self.sessions.clone(), self.kind, &self.queue()?))
    }

    /// Returns all holders and waiters, as of now.
    pub(super) async fn entries(&self) -> Result<Vec<QueueEntry>> {
        self.viewer()?.look().await
    }

    /// Returns the holder of a mutex or an election.
    pub(super) async fn holder(&self) -> Result<Option<QueueEntry>> {
        Ok(self.entries().await?.into_iter().next().filter(QueueEntry::is_holder))
    }

    /// Asks all holders to release. `false` if there are no holders.
    pub(super) async fn request_release(&self, reason: &str) -> Result<bool> {
        self.must_queue("release requests")?;
        release_request::ask(&self.viewer()?, reason).await
    }

    pub(super) fn watch(&self) -> Result<QueueWatch> {
        Ok(QueueWatch::new(self.viewer()?))
    }

    /// Acquires the lock by running `taking`, and reports it as a call. The future is already
    /// pinned, because its memory would be needed twice otherwise.
    pub(super) async fn take(
        &self,
        primitive: Primitive,
        limit: Option<Duration>,
        wait: Wait,
        taking: impl Future<Output = Result<Option<Hold>>> + Unpin,
    ) -> Result<Option<LockGuard>> {
        let telemetry = self.sessions.shared().telemetry;
        let call = Call::new(telemetry, primitive, &self.name, wait.is_a_try());
        let taken = call.within(taking).await;
        LockGuard::of(call, taken, limit)
    }
}
