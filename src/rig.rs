//! What only test builds have (`--cfg distlock_rigged`, see `docker/rigged-rustc`): bugs that can be switched on, to
//! prove that the checks can fail, and a look at the library from inside.
//!
//! `docker/bugs` runs the check of each bug, which `tests/bugs.txt` names. In ordinary builds `planted` is `false` and
//! what hangs on it is gone.

macro_rules! bugs {
    ($($(#[doc = $doc:literal])+ $bug:ident = $name:literal,)*) => {
        /// The bugs, each at the one line that stands between the library and it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(dead_code)] // where an adapter is left out
        pub(crate) enum Bug { $($(#[doc = $doc])+ $bug,)* }

        #[cfg(distlock_rigged)]
        const NAMES: &[(&str, Bug)] = &[$(($name, Bug::$bug)),*];
    };
}

// `docker/bugs --list` prints these: one line for each.
bugs! {
    /// The deadline counts from a proof's arrival, not from its request.
    DeadlineFromReply = "deadline-from-reply",
    /// Only the store's word ends a lock: the local deadline is ignored.
    StoresWordOnly = "stores-word-only",
    /// `is_valid()` tells what a timer's task has noted, and does not look at the clock.
    FlagSetByTimer = "flag-set-by-timer",
    /// The deadline is kept on a clock that stands still in suspend.
    MonotonicClock = "monotonic-clock",
    /// The keeper sleeps until its next request is due, by timers that stand still in suspend.
    LongSleeps = "long-sleeps",
    /// `run()` polls its future without a look at the clock.
    RunWithoutALook = "run-without-a-look",
    /// A late proof brings a lost lock back.
    LostGuardRevives = "lost-guard-revives",
    /// A session whose deadline passed while it was idle grants without a new proof.
    GrantWithoutProof = "grant-without-proof",
    /// Everything runs on the caller's runtime, which may be blocked.
    CallersRuntime = "callers-runtime",
    /// A keepalive that was sent counts, answered or not.
    SilenceIsProof = "silence-is-proof",
    /// A read, which a follower answers by itself, is taken for ZooKeeper's proof of life.
    ReadIsProof = "read-is-proof",
    /// A write that a follower passed on is taken for a proof for the whole session timeout.
    WholeTimeout = "whole-timeout",
    /// Nobody ahead is enough for a grant: that one's own key is still there is not asked.
    OwnKeyUnchecked = "own-key-unchecked",
    /// The end of the key ahead is taken for a grant.
    WakeUpIsGrant = "wake-up-is-grant",
    /// The end of any waiter's place counts as a holder's.
    MiddleIsHolder = "middle-is-holder",
    /// The tail is taken for the nearest one ahead although another client's waiter may stand there.
    TailIsNearest = "tail-is-nearest",
    /// Nobody watches the holder's own key.
    OwnKeyUnwatched = "own-key-unwatched",
    /// A watch from "now", without a look at what was before it.
    NoSecondLook = "no-second-look",
    /// Waiters trust in events alone and never look by themselves.
    NoRecheck = "no-recheck",
    /// Every waiter watches the first key.
    Herd = "herd",
    /// The sequence number of a ZooKeeper node is the token.
    SequenceAsToken = "sequence-as-token",
    /// A prefix without the separator: lock `a` sees the keys of `ab`.
    OpenPrefix = "open-prefix",
    /// Keys that lie deeper, of other locks, count as places in the queue.
    DeeperKeysCount = "deeper-keys-count",
    /// `try_lock()` joins the queue to see whether it is free.
    TryLockJoins = "try-lock-joins",
    /// The write of a caller who goes away is dropped with him, and not cleaned up.
    JoinDiesWithCaller = "join-dies-with-caller",
    /// A join that is repeated draws a new ticket, and so a second key.
    NewTicketOnRetry = "new-ticket-on-retry",
    /// A join whose outcome is not known is deleted once, perhaps before it lands.
    DoubtForgotten = "doubt-forgotten",
    /// A release, a late one at least, deletes by the lock's name and so another's key.
    ReleaseByName = "release-by-name",
    /// A release is tried once.
    WithdrawOnce = "withdraw-once",
    /// `unlock()` is Ok although no store has confirmed it.
    UnlockGuesses = "unlock-guesses",
    /// A lock is handed over within a client without a look at whether it is still held.
    HandsOverTheLost = "hands-over-the-lost",
    /// A client that has a lock keeps it for as long as its own callers want it.
    HandsOverForEver = "hands-over-for-ever",
    /// A reader goes in beside readers, past the writers who wait.
    ReadersPassWriters = "readers-pass-writers",
    /// A writer that becomes a reader has its place at the end.
    DowngradeLosesPlace = "downgrade-loses-place",
    /// Those who have permits are counted, and not their permits.
    PermitsUncounted = "permits-uncounted",
    /// Whoever waits for permits looks after them himself.
    GateLeftOpen = "gate-left-open",
    /// A write under a guard is made whether the guard's key is there or not.
    WritesUnguarded = "writes-unguarded",
    /// Several locks are taken in the order in which the caller names them.
    LocksInCallersOrder = "locks-in-callers-order",
    /// Whatever number of permits a client names, it counts on that.
    PermitsUnagreed = "permits-unagreed",
    /// All that share a key have one token.
    GrantsShareAToken = "grants-share-a-token",
}

/// Whether this bug is on, by the name in `DISTLOCK_BUG`.
#[cfg(distlock_rigged)]
#[allow(clippy::panic)] // a misspelt bug would pass for one that nothing catches
pub(crate) fn planted(bug: Bug) -> bool {
    static PLANTED: std::sync::OnceLock<Option<Bug>> = std::sync::OnceLock::new();
    let chosen = PLANTED.get_or_init(|| {
        let chosen = std::env::var("DISTLOCK_BUG").ok()?;
        let found = NAMES.iter().find(|(name, _)| *name == chosen);
        Some(found.unwrap_or_else(|| panic!("DISTLOCK_BUG: there is no bug {chosen:?}")).1)
    });
    *chosen == Some(bug)
}

#[cfg(not(distlock_rigged))]
#[inline(always)]
pub(crate) const fn planted(_: Bug) -> bool {
    false
}

/// How many tasks the library's own runtime has: sessions, watches, releases that go on in the background. After all
/// clients are gone it has none left.
#[cfg(distlock_rigged)]
#[must_use]
pub fn alive_tasks() -> usize {
    crate::runtime::handle().map_or(0, |runtime| runtime.metrics().num_alive_tasks())
}
