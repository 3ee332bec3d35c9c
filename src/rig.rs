//! What only test builds have (`--cfg distlock_rigged`, see `docker/rigged-rustc`): bugs that can
//! be switched on, to prove that the checks can fail, and a look at the library from inside.
//!
//! `docker/bugs` runs the check of each bug, which `tests/bugs.txt` names. In ordinary builds
//! `planted` is `false` and what hangs on it is gone.

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
    /// The store is told of a session's end as soon as its deadline has passed.
    RevokedAtOnce = "revoked-at-once",
    /// What a caller leaves unpolled stays with it, and with it what others need.
    CallersCarryAlone = "callers-carry-alone",
    /// A keepalive that was sent counts, answered or not.
    SilenceIsProof = "silence-is-proof",
    /// A read, which a follower answers by itself, is taken for ZooKeeper's proof of life.
    ReadIsProof = "read-is-proof",
    /// A write that a follower passed on is taken for a proof for the whole session timeout.
    WholeTimeout = "whole-timeout",
    /// What a write proves is reckoned as if its process had never stood still.
    SilenceForgotten = "silence-forgotten",
    /// Those who want to know of a session's end are woken while its lock is held.
    WakesUnderLock = "wakes-under-lock",
    /// Nobody ahead is enough for a grant: that one's own key is still there is not asked.
    OwnKeyUnchecked = "own-key-unchecked",
    /// The end of the key ahead is taken for a grant.
    WakeUpIsGrant = "wake-up-is-grant",
    /// The end of any waiter's place counts as a holder's.
    MiddleIsHolder = "middle-is-holder",
    /// A ZooKeeper waiter that gives up leaves word as a holder does.
    WaitersLeaveMarks = "waiters-leave-marks",
    /// The tail is taken for the nearest one ahead although another client's waiter may stand
    /// there.
    TailIsNearest = "tail-is-nearest",
    /// Nobody watches the holder's own key.
    OwnKeyUnwatched = "own-key-unwatched",
    /// The watches on the holders' own keys are trusted: the store is not asked for these now and
    /// then.
    OwnKeyUnrechecked = "own-key-unrechecked",
    /// What a session watches of its holders' own keys is not counted.
    OwnWatchesUnbudgeted = "own-watches-unbudgeted",
    /// A path counts once for each that watches it.
    WatchesCountedTwice = "watches-counted-twice",
    /// A watch from "now", without a look at what was before it.
    NoSecondLook = "no-second-look",
    /// Waiters trust in events alone and never look by themselves.
    NoRecheck = "no-recheck",
    /// Every waiter watches the first key.
    Herd = "herd",
    /// The nodes of kazoo's own layout are taken for junk.
    KazooOverlooked = "kazoo-overlooked",
    /// A node of ZooKeeper's that belongs to no session has a place if it is named like a waiter's.
    PersistentNodesCount = "persistent-nodes-count",
    /// A ZooKeeper server is not asked whether it is new enough.
    OldServersAccepted = "old-servers-accepted",
    /// What was refused for certain is kept as something in doubt.
    RefusalsInDoubt = "refusals-in-doubt",
    /// The sequence number of a ZooKeeper node is the token.
    SequenceAsToken = "sequence-as-token",
    /// A prefix without the separator: lock `a` sees the keys of `ab`.
    OpenPrefix = "open-prefix",
    /// Keys that lie deeper, of other locks, count as places in the queue.
    DeeperKeysCount = "deeper-keys-count",
    /// A try waits for the store for as long as that takes.
    TriesUnbounded = "tries-unbounded",
    /// `try_lock()` joins the queue to see whether it is free.
    TryLockJoins = "try-lock-joins",
    /// The write of a caller who goes away is dropped with him, and not cleaned up.
    JoinDiesWithCaller = "join-dies-with-caller",
    /// Each one that waits for a session tries to open one after the other has failed.
    OpeningsUnshared = "openings-unshared",
    /// A client that was closed is closed, whatever the store has said.
    ClosedIsClosed = "closed-is-closed",
    /// A waiter that was told of a write to the key ahead does without a watch for a while.
    WritesBlind = "writes-blind",
    /// That the store refuses a release is told to nobody.
    RefusalsUntold = "refusals-untold",
    /// A join is sent although its caller has gone while it waited for its turn.
    GoneCallersJoin = "gone-callers-join",
    /// What an attempt has written under a former label is not looked for.
    LabelForgotten = "label-forgotten",
    /// A release that finds no key, and had an attempt before, takes it for its own work.
    AbsentIsReleased = "absent-is-released",
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
    /// What is kept secret is shown when it is printed.
    SecretsShown = "secrets-shown",
    /// The URL is shown as it was given.
    UrlAsGiven = "url-as-given",
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
    /// A key of etcd's that was written over without its lease is taken for its owner's.
    LeaseUnchecked = "lease-unchecked",
    /// Each one that waits for permits looks after them itself.
    GateLeftOpen = "gate-left-open",
    /// A write under a guard is made whether the guard's key is there or not.
    WritesUnguarded = "writes-unguarded",
    /// Several locks that the store does not take at once are an error.
    AllAtOnceOrNever = "all-at-once-or-never",
    /// Several locks are taken in the order in which the caller names them.
    LocksInCallersOrder = "locks-in-callers-order",
    /// The first one ahead says how many permits there are, though others name a smaller number.
    LargerNumberCounts = "larger-number-counts",
    /// The smallest number of permits that was ever noted counts, also if it comes late.
    LateNoteCounts = "late-note-counts",
    /// Whatever number of permits a client names, it counts on that.
    PermitsUnagreed = "permits-unagreed",
    /// Timers are made before their future is polled, so in the caller's runtime, if there is one.
    TimersOfTheCaller = "timers-of-the-caller",
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

/// How many tasks the library's own runtime has: sessions, watches, releases that go on in the
/// background. After all clients are gone it has none left.
#[cfg(distlock_rigged)]
#[must_use]
pub fn alive_tasks() -> usize {
    crate::runtime::handle().map_or(0, |runtime| runtime.metrics().num_alive_tasks())
}
