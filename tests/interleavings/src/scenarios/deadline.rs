//! The deadline of a session, with callers, keeper and timers on separate threads.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{sync::Arc, time::Duration};

use shuttle::{future::block_on, thread};

use super::join;
use crate::{
    lost::LostReason,
    runtime::clock,
    session::deadline::{Deadline, NotGranted},
};

const TTL: Duration = Duration::from_secs(10);

/// A session opened at this moment with this number of holders.
fn session(holders: usize) -> Arc<Deadline> {
    let deadline = Arc::new(Deadline::new(clock::now(), TTL, false));
    for _ in 0..holders {
        assert!(deadline.enter());
        assert_eq!(deadline.grant(), Ok(()));
    }
    deadline
}

/// What threads have seen of a session's end. No thread is preempted at an atomic of `core`.
#[derive(Clone, Default)]
struct Seen(Arc<AtomicBool>);

impl Seen {
    fn over(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Checks that a session that has ended stays ended.
    fn look(&self, deadline: &Deadline) {
        let over = self.over();
        let remaining = deadline.remaining();
        assert!(!over || remaining.is_zero(), "the session was ended and is live again");
        if remaining.is_zero() {
            self.0.store(true, Ordering::SeqCst);
        }
    }
}

/// A renewal that is confirmed at the deadline extends the session before it ends, or changes
/// nothing.
pub fn renewal_at_the_deadline_extends_all_or_nothing() {
    let (deadline, seen, second) = (session(1), Seen::default(), TTL / 10);
    clock::pass(second);
    let sent = clock::now();
    let (renewed, looks, sees) = (Arc::clone(&deadline), Arc::clone(&deadline), seen.clone());
    let threads = [
        thread::spawn(move || renewed.renewed(sent, TTL)),
        thread::spawn(move || {
            clock::pass(second * 8);
            sees.look(&looks);
        }),
    ];
    seen.look(&deadline);
    threads.into_iter().for_each(join);
    seen.look(&deadline);
    let extended = deadline.lost_reason().is_none();
    assert_eq!(extended, !seen.over());
    // The deadline, and the time for which the store keeps the session.
    let left = [deadline.remaining(), deadline.margin()];
    assert_eq!(left, if extended { [second, Duration::ZERO] } else { [Duration::ZERO, second] });
}

/// A grant at the deadline is known to all threads that are notified of the end, or it fails.
pub fn grant_at_the_deadline_is_before_the_loss_or_fails() {
    let (deadline, seen) = (session(0), Seen::default());
    assert!(deadline.enter());
    clock::pass(TTL / 10);
    deadline.renewed(clock::now(), TTL);
    let (waits, looks, sees) = (Arc::clone(&deadline), Arc::clone(&deadline), seen.clone());
    let notified = thread::spawn(move || {
        assert_eq!(block_on(waits.lost()), LostReason::DeadlinePassed);
        sees.0.store(true, Ordering::SeqCst);
        // The margin of requests under way: none arrives later.
        waits.margin()
    });
    let timer = thread::spawn(move || {
        clock::pass(TTL * 9 / 10);
        assert_eq!(looks.lost_reason(), Some(LostReason::DeadlinePassed));
    });
    let over = seen.over();
    let granted = deadline.grant();
    assert!(!over || granted.is_err(), "granted after the loss");
    join(timer);
    let margin = join(notified);
    assert_eq!(margin.is_zero(), granted.is_err(), "{granted:?}");
    let lost = NotGranted::Lost(LostReason::DeadlinePassed);
    assert!(deadline.grant() == Err(lost) && !deadline.enter());
}

/// Of several reasons for the end, the first one counts, for waiters and for readers.
pub fn first_end_reason_is_kept() {
    let deadline = session(1);
    let ends = [LostReason::SessionExpired, LostReason::ClientClosed].map(|reason| {
        let deadline = Arc::clone(&deadline);
        thread::spawn(move || deadline.lose(reason))
    });
    let reason = block_on(deadline.lost());
    assert_eq!(deadline.lost_reason(), Some(reason));
    ends.into_iter().for_each(join);
    assert_eq!(deadline.lost_reason(), Some(reason));
    assert_eq!(block_on(deadline.lost()), reason);
}

/// The end of a session ends all waits: for the end itself, and for its holders.
pub fn session_end_wakes_all_waiters() {
    let deadline = session(1);
    let (lost, unheld) = (Arc::clone(&deadline), Arc::clone(&deadline));
    let waits = [
        thread::spawn(move || assert_eq!(block_on(lost.lost()), LostReason::SessionExpired)),
        thread::spawn(move || block_on(unheld.unheld())),
    ];
    deadline.lose(LostReason::SessionExpired);
    waits.into_iter().for_each(join);
}

/// Holders release concurrently: the wait ends, and not before the last release.
pub fn last_release_ends_the_wait_for_it() {
    let (deadline, holders) = (session(2), Arc::new(AtomicUsize::new(2)));
    let leaves = [(); 2].map(|()| {
        let (deadline, holders) = (Arc::clone(&deadline), Arc::clone(&holders));
        thread::spawn(move || {
            deadline.leave();
            holders.fetch_sub(1, Ordering::SeqCst);
            deadline.released();
        })
    });
    block_on(deadline.unheld());
    assert_eq!(holders.load(Ordering::SeqCst), 0);
    leaves.into_iter().for_each(join);
    assert!(deadline.vitals().busy, "their attempts have not ended");
    deadline.left();
    deadline.left();
    assert!(!deadline.vitals().busy);
}

/// A session is busy from the start of an attempt to its end, and not longer.
pub fn session_is_busy_while_an_attempt_is_under_way() {
    let deadline = session(0);
    let attempts = [(); 2].map(|()| {
        let (deadline, under_way) = (Arc::clone(&deadline), Seen::default());
        let sees = under_way.clone();
        let thread = thread::spawn(move || {
            assert!(deadline.enter());
            sees.0.store(true, Ordering::SeqCst);
            assert_eq!(deadline.grant(), Ok(()));
            deadline.leave();
            sees.0.store(false, Ordering::SeqCst);
            deadline.left();
        });
        (thread, under_way)
    });
    let under_way = || attempts.each_ref().map(|(_, under_way)| under_way.over());
    for _ in 0..2 {
        let before = under_way();
        let idle = !deadline.vitals().busy;
        let all_along = before.iter().zip(under_way()).any(|(before, after)| *before && after);
        assert!(!(idle && all_along), "the session is not kept alive for an attempt");
    }
    attempts.into_iter().for_each(|(thread, _)| join(thread));
    assert!(!deadline.vitals().busy);
}

/// After a process stall, the result does not depend on which thread notices it first.
pub fn renewal_after_a_stall_counts_from_before_it() {
    let deadline = Arc::new(Deadline::new(clock::now(), TTL, true));
    assert!(deadline.enter());
    assert_eq!(deadline.grant(), Ok(()));
    let stall = TTL * 4 / 10;
    clock::pass(stall);
    let sent = clock::now();
    let (keeper, renewed) = (Arc::clone(&deadline), Arc::clone(&deadline));
    let threads = [
        thread::spawn(move || assert!(keeper.vitals().busy)),
        thread::spawn(move || renewed.renewed(sent, TTL)),
    ];
    let counts = deadline.until_proofs_count();
    threads.into_iter().for_each(join);
    assert_eq!(counts, deadline.timing.stutter());
    // As long as the request before it: it adds nothing to what the opening has shown.
    assert_eq!(deadline.remaining(), TTL * 9 / 10 - stall);
}
