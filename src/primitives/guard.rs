//! A lock that is held: how long it is valid, how its loss is told, how it is let go.

mod release;
pub(super) mod run;

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    backend::{
        Entry,
        name::{Queue, Ticket},
    },
    error::{Error, Result},
    fencing::FencingToken,
    lost::LostReason,
    queue::{self, Hold, attempt::Attempt},
    runtime::mutex::Mutex,
    session::{Session, own_key::OwnKey},
    store_kind::StoreKind,
    telemetry::Call,
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
/// without one. A process that exits at once after that may leave the key behind. The lock is then
/// free after the session's TTL, on PostgreSQL, MySQL and Redis up to a TTL later. To be sure,
/// await [`unlock`](Self::unlock) or [`Client::close`](crate::Client::close).
///
/// Bind it to a name. `let _ = mutex.lock().await?;` drops the guard in that statement, so that the
/// lock is free at once, and the compiler is silent: `#![warn(let_underscore_drop)]` makes it warn.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
/// # let client = distlock::Client::connect("memory://docs-guard").await?;
/// let mutex = client.mutex("a");
/// let _guard = mutex.lock().await?; // held up to the end of the block
/// assert!(mutex.try_lock().await?.is_none());
/// # Ok(()) }
/// ```
#[must_use = "the lock is released as soon as the guard is dropped"]
#[clippy::has_significant_drop]
pub struct LockGuard {
    pub(crate) held: Arc<Held>,
    /// It lets go when it is dropped: a handle's does not.
    owns: bool,
}

/// What a guard and its handles have in common.
pub(crate) struct Held {
    pub(crate) session: Arc<Session>,
    pub(crate) own: Arc<OwnKey>,
    pub(crate) queue: Queue,
    pub(super) ticket: Ticket,
    /// When it was granted, by this machine's clock.
    pub(super) since: Duration,
    /// What gives the lock back. None once it is unlocked.
    attempt: Mutex<Option<Attempt>>,
}

impl LockGuard {
    pub(super) fn new(hold: Hold) -> Self {
        let Hold { attempt, own, since } = hold;
        let (session, ticket) = (Arc::clone(&attempt.session), attempt.ticket);
        let queue = attempt.queue.clone();
        let attempt = Mutex::new(Some(attempt));
        Self { held: Arc::new(Held { session, own, queue, ticket, since, attempt }), owns: true }
    }

    /// What a call has brought.
    pub(crate) fn of(
        call: Call<'_>,
        taken: Result<Option<Hold>>,
        limit: Option<Duration>,
    ) -> Result<Option<Self>> {
        let Ok(Some(mut hold)) = taken else {
            call.returned(&taken);
            return taken.map(|_| None);
        };
        let (token, own) = (hold.own.entry.token, Arc::clone(&hold.own));
        let account = call.granted(token, &hold.attempt.session.deadline.accounts, &own.account);
        hold.attempt.account = account;
        let guard = Self::new(hold);
        guard.limit(limit, guard.held.since);
        // It may have been lost a moment ago, when nobody knew of the account yet.
        guard.with_attempt(|attempt| attempt.account.lose(|| guard.lost_reason()));
        Ok(Some(guard))
    }

    /// Lets it be held for no longer than the limit says, counted from then.
    pub(crate) fn limit(&self, limit: Option<Duration>, since: Duration) {
        let Some(time) = limit else { return };
        self.with_attempt(|attempt| queue::hold_until(attempt, &self.held.own, since + time));
    }

    /// What gives the lock back, for the one who does.
    pub(super) fn give_up(&self) -> Option<Attempt> {
        self.held.attempt.lock().take()
    }

    fn with_attempt(&self, work: impl FnOnce(&Attempt)) {
        if let Some(attempt) = self.give_up() {
            work(&attempt);
            *self.held.attempt.lock() = Some(attempt);
        }
    }

    /// The same hold, without the right to let go of it.
    pub(super) fn view(&self) -> Self {
        Self { held: Arc::clone(&self.held), owns: false }
    }

    /// This grant's fencing token.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        FencingToken::new(self.held.own.entry.token)
    }

    /// The lock's name, as it was given to [`Client::mutex`](crate::Client::mutex).
    #[must_use]
    pub fn name(&self) -> &str {
        self.held.queue.name()
    }

    /// The holder's key in the store, as the store's own tools show it. On etcd a transaction that
    /// compares this key's create revision with the token writes only while the lock is held.
    ///
    /// After a [`downgrade`](crate::WriteGuard::downgrade) it is another key, in the old one's
    /// place, with a create revision of its own and the old token: `etcd::compare` knows the
    /// difference.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.held.own.entry.key
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
        // In a forked child the session knows it without a lock that another thread may have.
        let remaining = self.held.session.deadline.remaining();
        if remaining.is_zero() { remaining } else { remaining.min(self.held.own.remaining()) }
    }

    /// Its key, if it is in this store.
    #[allow(dead_code)] // Without a store that has transactions of its own.
    pub(crate) fn entry_in(&self, kind: StoreKind) -> Option<&Entry> {
        (self.held.session.shared.backend.kind() == kind).then_some(&self.held.own.entry)
    }

    /// Returns why the lock was lost; `None` while it is held.
    ///
    /// Like [`is_valid`](Self::is_valid), it reads the clock.
    ///
    /// # Examples
    ///
    /// ```
    /// # use distlock::LostReason;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// # let client = distlock::Client::connect("memory://docs-lost-reason").await?;
    /// let guard = client.mutex("a").lock().await?;
    /// let handle = guard.handle();
    /// assert_eq!(handle.lost_reason(), None);
    /// guard.unlock().await?;
    /// assert_eq!(handle.lost_reason(), Some(LostReason::Released));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn lost_reason(&self) -> Option<LostReason> {
        if self.held.session.deadline.is_inherited() {
            return Some(LostReason::Forked);
        }
        let lost = self.held.own.lost_reason();
        let lost = lost.or_else(|| self.held.session.deadline.lost_reason());
        lost.or_else(|| (!self.held.own.is_held()).then_some(LostReason::Released))
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
    /// assert_eq!(guard.lost().await, LostReason::Evicted);
    /// assert!(!guard.is_valid());
    /// # Ok(()) }
    /// ```
    pub async fn lost(&self) -> LostReason {
        tokio::select! {
            biased;
            reason = self.held.session.deadline.lost() => reason,
            reason = self.held.own.lost() => reason,
            () = self.held.own.left(), if !self.owns => LostReason::Released,
        }
    }

    pub(crate) fn lost_error(&self, reason: LostReason) -> Error {
        Error::Lost { name: self.name().to_owned(), reason }
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if self.owns {
            drop(self.give_up());
        }
    }
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
