//! A held lock: how long it is valid, how its loss is reported, and how it is released.

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

/// Holds a lock until it is unlocked or dropped.
///
/// While the guard of an exclusive lock is valid, no other client is granted the lock, unless an
/// operator evicts the holder, the machine's clock stops (see [`is_valid`](Self::is_valid)), or the
/// store loses confirmed writes or ends the session too early.
/// [`Client::durability`](crate::Client::durability) reports whether the failure of a server can
/// make two guards valid at once. [Guarantees] documents all conditions.
///
/// The guard is valid until its local deadline, unless the lock is lost earlier. Each keepalive
/// that the store confirms moves the deadline forward, but not beyond the lock's `max_hold`.
///
/// The lock can be lost right after a check. Work that must never overlap should therefore pass the
/// [`fencing_token`](Self::fencing_token) to the resource that it changes.
///
/// Dropping the guard releases the lock in the background, except in a forked child. This works on
/// any thread, with or without a runtime. A process that exits right after the drop may leave its
/// key in the store. The lock is then free after about one TTL, or after 1.1 TTL on PostgreSQL,
/// MySQL, MariaDB and Redis. On these stores, a client that connects later may need 1.1 TTL from
/// the time at which it connects. To be sure, await [`unlock`](Self::unlock) or
/// [`Client::close`](crate::Client::close).
///
/// The guard borrows nothing, so it can be stored in a struct or moved into a spawned task. For
/// other tasks, [`handle`](Self::handle) returns a handle that can be cloned.
///
/// Bind the guard to a name. `let _ = mutex.lock().await?;` drops the guard in the same statement,
/// which releases the lock. The compiler warns about this only with
/// `#![warn(let_underscore_drop)]`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
/// # let client = distlock::Client::connect("memory://docs-guard").await?;
/// let mutex = client.mutex("a");
/// let _guard = mutex.lock().await?; // held until the end of the block
/// assert!(mutex.try_lock().await?.is_none());
/// # Ok(()) }
/// ```
///
/// [Guarantees]: https://github.com/distlock/distlock/blob/main/docs/design/guarantees.md
#[must_use = "the lock is released as soon as the guard is dropped"]
#[clippy::has_significant_drop]
pub struct LockGuard {
    pub(crate) held: Arc<Held>,
    /// `true` if a drop releases the lock. The guard inside a handle does not release it.
    owns: bool,
}

/// The state that a guard shares with its handles.
pub(crate) struct Held {
    pub(crate) session: Arc<Session>,
    pub(crate) own: Arc<OwnKey>,
    pub(crate) queue: Queue,
    pub(super) ticket: Ticket,
    /// When the granted request was sent, or when a waiter was granted, by this machine's clock.
    pub(super) since: Duration,
    /// Releases the lock. `None` once the lock is unlocked.
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

    /// Turns the outcome of a call into a guard, and reports the call.
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
        // A loss before the account existed has not been reported yet.
        guard.with_attempt(|attempt| attempt.account.lose(|| guard.lost_reason()));
        Ok(Some(guard))
    }

    /// Limits how long the lock is held, counted from `since`.
    pub(crate) fn limit(&self, limit: Option<Duration>, since: Duration) {
        let Some(time) = limit else { return };
        self.with_attempt(|attempt| queue::hold_until(attempt, &self.held.own, since + time));
    }

    /// Takes the attempt, which releases the lock when it is dropped.
    pub(super) fn give_up(&self) -> Option<Attempt> {
        self.held.attempt.lock().take()
    }

    fn with_attempt(&self, work: impl FnOnce(&Attempt)) {
        if let Some(attempt) = self.give_up() {
            work(&attempt);
            *self.held.attempt.lock() = Some(attempt);
        }
    }

    /// Returns a guard of the same hold that does not release it.
    pub(super) fn view(&self) -> Self {
        Self { held: Arc::clone(&self.held), owns: false }
    }

    /// Returns this grant's fencing token.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        FencingToken::new(self.held.own.entry.token)
    }

    /// Returns the lock's name, as it was passed to the client.
    #[must_use]
    pub fn name(&self) -> &str {
        self.held.queue.name()
    }

    /// Returns the key of the holder's entry in the store.
    ///
    /// On etcd and ZooKeeper, the store's own tools show this key. On databases, Redis and Redlock,
    /// the key is composed of the names and numbers that identify the entry.
    ///
    /// On etcd, to make your own transaction depend on this key, use `etcd::compare`.
    ///
    /// A [`downgrade`](crate::WriteGuard::downgrade) replaces the key with another key at the same
    /// position in the queue, and the token stays the same.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.held.own.entry.key
    }

    /// Returns `true` if the lock is held now, as far as this process knows.
    ///
    /// This method compares the deadline with the clock. On Linux, Android and Apple's systems,
    /// this clock keeps running while the machine is suspended; on other systems, it may stop. In a
    /// virtual machine, the clock stops while the hypervisor has stopped the machine. Once this
    /// method has returned `false`, it never returns `true` again.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Returns how long the lock stays valid if no further keepalive succeeds.
    ///
    /// The result is zero once the lock is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        // In a forked child, the session returns zero here without a mutex that another thread may
        // hold.
        let remaining = self.held.session.deadline.remaining();
        if remaining.is_zero() { remaining } else { remaining.min(self.held.own.remaining()) }
    }

    /// Returns the lock's entry if it is in a store of this kind.
    #[allow(dead_code)] // Unused without a store that has transactions.
    pub(crate) fn entry_in(&self, kind: StoreKind) -> Option<&Entry> {
        (self.held.session.shared.backend.kind() == kind).then_some(&self.held.own.entry)
    }

    /// Returns why the lock was lost; `None` while it is held.
    ///
    /// Like [`is_valid`](Self::is_valid), this method reads the clock.
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
        let ended = self.held.own.end_of_hold();
        let ended = ended.or_else(|| self.held.session.deadline.lost_reason());
        ended.or_else(|| (!self.held.own.is_held()).then_some(LostReason::Released))
    }

    /// Resolves when the lock is lost.
    ///
    /// The future resolves when the client learns of the loss: when the local deadline passes, or
    /// earlier if the store reports the loss. After the machine was suspended, `lost` may resolve
    /// up to a second after [`is_valid`](Self::is_valid) returns `false`. On a
    /// [handle](Self::handle), the future also resolves once the guard has released the lock.
    ///
    /// If an operator evicts the holder or ends its session, the next waiter may be granted the
    /// lock before `lost` resolves. In this case, `lost` resolves:
    ///
    /// - about 0.4 s after the grant, if the key was deleted before that;
    /// - when the store's event arrives, if the key was deleted later;
    /// - within a few milliseconds on SQLite, and within a second on MySQL, MariaDB, and PostgreSQL
    ///   behind a transaction pooler, which send no events;
    /// - after about a second on ZooKeeper, if the session has no room for all of its watches;
    /// - at the next renewal on Redlock, and on Redis with a bridge if the key of the other
    ///   libraries was deleted or taken over;
    /// - within 1.25 times the [`recheck_interval`](crate::Builder::recheck_interval), if the event
    ///   is lost.
    ///
    /// The future does not depend on the caller's runtime, unless the client uses that runtime
    /// ([`Builder::runtime`](crate::Builder::runtime)).
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
    /// let client = Client::connect("memory://docs-lost").await?;
    /// let guard = client.mutex("a").lock().await?;
    /// Space::named("docs-lost").delete(guard.key());
    /// assert_eq!(guard.lost().await, LostReason::Evicted);
    /// assert!(!guard.is_valid());
    /// # Ok(()) }
    /// ```
    pub async fn lost(&self) -> LostReason {
        let (own, deadline) = (&self.held.own, &self.held.session.deadline);
        if deadline.is_inherited() {
            return LostReason::Forked;
        }
        let reason = tokio::select! {
            biased;
            reason = own.lost() => reason,
            reason = deadline.lost() => reason,
            () = own.left(), if !self.owns => LostReason::Released,
        };
        // Several of these may have happened.
        self.lost_reason().unwrap_or(reason)
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
