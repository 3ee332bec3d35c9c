use std::{
    pin::pin,
    sync::{Arc, mpsc},
    task::{Context, Wake},
    thread,
};

use super::*;

const TTL: Duration = Duration::from_secs(10);

fn held(deadline: &Deadline) {
    assert!(deadline.enter());
    assert_eq!(deadline.grant(), Ok(()));
}

#[test]
fn deadline_counts_from_request_sent() {
    let sent = clock::now();
    let deadline = Deadline::new(sent, TTL, false);
    deadline.renewed(sent + TTL / 2, TTL);
    assert!(deadline.remaining() <= TTL / 2 + TTL * 9 / 10);
    // A late reply to an older renewal does not shorten the deadline.
    deadline.renewed(sent, TTL);
    assert!(deadline.remaining() > TTL);
}

/// The session was created at an unknown time after its request was sent, and the process may have
/// paused since.
#[test]
fn process_stall_during_open_counts() {
    let (now, opening) = (clock::now(), TTL * 8 / 10);
    for (relayed, opened, least, most) in [
        (true, now - opening, 0, 1),
        (true, now - TTL / 2, 3, 4),
        (true, now, 8, 9),
        (false, now - opening, 5, 6),
    ] {
        let deadline = Deadline::new(opened, TTL, relayed);
        deadline.renewed(clock::now(), TTL * 2 / 3);
        let remaining = deadline.remaining();
        let bounds = Duration::from_secs(least)..=Duration::from_secs(most);
        assert!(bounds.contains(&remaining), "{relayed}, {:?}: {remaining:?}", now - opened);
    }
}

#[test]
fn session_expired_while_held_is_never_revived() {
    let deadline = Deadline::new(clock::now(), TTL, false);
    deadline.enter();
    assert_eq!(deadline.grant(), Ok(()));
    deadline.state.lock().deadline = clock::now();
    assert_eq!(deadline.remaining(), Duration::ZERO);
    deadline.renewed(clock::now(), TTL);
    assert_eq!(deadline.lost_reason(), Some(LostReason::DeadlinePassed));
    assert_eq!(deadline.remaining(), Duration::ZERO);
}

#[test]
fn session_expired_while_idle_needs_renewal() {
    let deadline = Deadline::new(clock::now().saturating_sub(TTL * 2), TTL, false);
    assert_eq!(deadline.lost_reason(), None);
    deadline.enter();
    assert_eq!(deadline.grant(), Err(NotGranted::Unconfirmed));
    deadline.renewed(clock::now(), TTL);
    assert_eq!(deadline.grant(), Ok(()));
}

/// An executor with its own thread may poll at once.
#[test]
fn waker_may_read_the_deadline() {
    struct Looks(Arc<Deadline>);
    impl Wake for Looks {
        fn wake(self: Arc<Self>) {
            assert_eq!(self.0.lost_reason(), Some(LostReason::SessionExpired));
        }
    }
    let deadline = Arc::new(Deadline::new(clock::now(), TTL, false));
    let (sender, done) = mpsc::channel();
    thread::spawn(move || {
        let waker = Arc::new(Looks(Arc::clone(&deadline))).into();
        let mut lost = pin!(deadline.lost());
        assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        deadline.lose(LostReason::SessionExpired);
        assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
        sender.send(()).unwrap();
    });
    done.recv_timeout(Duration::from_secs(10)).expect("it looks at its own thread's leisure");
}

#[test]
fn stalled_idle_session_is_given_up() {
    let deadline = Deadline::new(clock::now(), TTL, true);
    let beat = |ago: Duration| {
        let now = clock::now();
        deadline.state.lock().process_stalls =
            ProcessStalls::new(deadline.timing, now.saturating_sub(ago));
    };
    beat(TTL / 9);
    assert!(deadline.enter());
    deadline.left();
    beat(TTL);
    // The client's own write returns before others notice, and proves nothing.
    let before = deadline.state.lock().deadline;
    deadline.renewed(clock::now(), TTL * 2 / 3);
    assert_eq!(deadline.state.lock().deadline, before);
    assert!(!deadline.enter(), "a new session is had sooner");
    assert_eq!(deadline.lost_reason(), Some(LostReason::DeadlinePassed));
}

#[test]
fn waiters_give_up_after_the_ttl() {
    let deadline = Deadline::new(clock::now(), TTL, false);
    deadline.enter();
    let past = clock::now();
    deadline.state.lock().deadline = past;
    assert_eq!(deadline.lost_reason(), None);
    deadline.state.lock().patience = past;
    assert_eq!(deadline.lost_reason(), Some(LostReason::DeadlinePassed));
}

/// Advances the paused clock.
async fn pass(millis: u64) {
    tokio::time::advance(Duration::from_millis(millis)).await;
}

fn millis(time: Duration) -> u128 {
    time.as_millis()
}

#[tokio::test(start_paused = true)]
async fn hold_ends_exactly_at_its_deadline() {
    let deadline = Deadline::new(clock::now(), TTL, false);
    held(&deadline);
    pass(8999).await;
    assert_eq!((deadline.lost_reason(), millis(deadline.remaining())), (None, 1));
    assert!(!deadline.is_over());
    pass(1).await;
    assert!(!deadline.is_over(), "nobody has looked at the clock");
    assert_eq!(deadline.lost_reason(), Some(LostReason::DeadlinePassed));
    assert!(deadline.is_over());
    assert_eq!(deadline.remaining(), Duration::ZERO);
    assert_eq!(deadline.lost().await, LostReason::DeadlinePassed);
    // The store keeps the session for another tenth of the TTL.
    assert_eq!(millis(deadline.margin()), 1000);
    pass(400).await;
    assert_eq!(millis(deadline.margin()), 600);
    pass(4000).await;
    assert_eq!(deadline.margin(), Duration::ZERO);
    // The first reason is kept, and nothing is granted afterwards.
    deadline.lose(LostReason::ClientClosed);
    assert_eq!(deadline.lost_reason(), Some(LostReason::DeadlinePassed));
    assert!(!deadline.enter());
    assert_eq!(deadline.grant(), Err(NotGranted::Lost(LostReason::DeadlinePassed)));
}

#[tokio::test(start_paused = true)]
async fn margin_applies_only_to_held_sessions() {
    for (reason, holds, margin) in [
        (None, true, 1000),
        (None, false, 0),
        (Some(LostReason::SessionExpired), true, 0),
        (Some(LostReason::ClientClosed), true, 0),
    ] {
        let deadline = Deadline::new(clock::now(), TTL, false);
        held(&deadline);
        assert_eq!(deadline.margin(), Duration::ZERO, "it lives");
        if !holds {
            deadline.leave();
        }
        match reason {
            Some(reason) => deadline.lose(reason),
            None => {
                pass(9000).await;
                // A waiter tolerates the silence of a whole TTL.
                assert_eq!(deadline.lost_reason().is_some(), holds);
                if !holds {
                    deadline.lose(LostReason::DeadlinePassed);
                }
            }
        }
        assert_eq!(millis(deadline.margin()), margin, "{reason:?} {holds}");
    }
}

#[tokio::test(start_paused = true)]
async fn busy_session_lapses() {
    let deadline = Deadline::new(clock::now(), TTL, false);
    let lapses = || {
        let vitals = deadline.vitals();
        (vitals.busy, vitals.lapses.map(|at| millis(at.saturating_sub(vitals.now))))
    };
    assert_eq!(lapses(), (false, None));
    pass(5000).await;
    assert!(deadline.enter());
    // For waiters: the TTL, from when the first of them joined.
    assert_eq!(lapses(), (true, Some(10_000)));
    pass(1000).await;
    assert!(deadline.enter());
    assert_eq!(lapses(), (true, Some(9000)));
    assert_eq!(deadline.grant(), Ok(()));
    assert_eq!(lapses(), (true, Some(3000)));
    deadline.leave();
    assert_eq!(lapses(), (true, Some(9000)));
    deadline.left();
    assert_eq!(lapses(), (true, Some(9000)));
    deadline.left();
    assert_eq!(lapses(), (false, None));
    deadline.renewed(clock::now(), TTL);
    assert!(deadline.enter());
    assert_eq!(lapses(), (true, Some(10_000)));
    deadline.lose(LostReason::SessionExpired);
    assert_eq!(lapses(), (true, None));
}

/// At the deadline itself, the lock is no longer held.
#[tokio::test(start_paused = true)]
async fn nothing_is_granted_at_the_deadline() {
    for (waits, granted) in [(8999, Ok(())), (9000, Err(NotGranted::Unconfirmed))] {
        let deadline = Deadline::new(clock::now(), TTL, false);
        assert!(deadline.enter());
        pass(waits).await;
        assert_eq!(deadline.grant(), granted);
    }
}

#[tokio::test(start_paused = true)]
async fn wait_ends_with_the_last_release() {
    let deadline = Deadline::new(clock::now(), TTL, false);
    deadline.unheld().await;
    held(&deadline);
    held(&deadline);
    {
        let mut unheld = pin!(deadline.unheld());
        let mut waits = async || {
            tokio::select! {
                biased;
                () = &mut unheld => false,
                () = tokio::task::yield_now() => true,
            }
        };
        assert!(waits().await);
        deadline.leave();
        deadline.released();
        assert!(waits().await);
        deadline.leave();
        assert!(waits().await, "the release has no result yet");
        tokio::select! {
            biased;
            () = deadline.unheld() => panic!("a wait that begins now ignores the release"),
            () = tokio::task::yield_now() => {}
        }
        deadline.released();
        assert!(!waits().await);
    }
    held(&deadline);
    let unheld = deadline.unheld();
    deadline.lose(LostReason::SessionExpired);
    unheld.await;
}

/// Where a server forwards renewals, a pause of more than an eighth of the TTL counts: a renewal
/// that is sent in the three eighths after its end proves no more than one sent before it.
#[tokio::test(start_paused = true)]
async fn session_waits_after_stall_until_renewals_count() {
    let deadline = Deadline::new(clock::now(), TTL, true);
    let vitals = deadline.vitals();
    assert_eq!((vitals.counts_from, deadline.until_proofs_count()), (None, Duration::ZERO));
    pass(1250).await;
    assert_eq!(deadline.until_proofs_count(), Duration::ZERO);
    deadline.vitals();
    pass(1251).await;
    let vitals = deadline.vitals();
    let counts_from = vitals.counts_from.map(|at| millis(at.saturating_sub(vitals.now)));
    assert_eq!(counts_from, Some(3750));
    assert_eq!(millis(deadline.until_proofs_count()), 3750);
    pass(1000).await;
    assert_eq!(millis(deadline.until_proofs_count()), 2750);
    deadline.vitals();
    // In steps, so that the process does not seem to have paused.
    for _ in 0..3 {
        pass(1000).await;
        deadline.vitals();
    }
    assert_eq!(deadline.until_proofs_count(), Duration::ZERO);
}

/// An idle session after a pause so long that a renewal would leave less than a quarter of the TTL,
/// instead of the usual half.
#[tokio::test(start_paused = true)]
async fn idle_sessions_are_given_up_after_a_process_stall() {
    for (silence, entered) in [(1250, true), (5249, true), (5250, true), (5251, false)] {
        let deadline = Deadline::new(clock::now(), TTL, true);
        pass(silence).await;
        assert_eq!(deadline.enter(), entered, "{silence}");
        assert_eq!(deadline.is_over(), !entered);
    }
    // For a session that is in use, the deadline decides.
    let deadline = Deadline::new(clock::now(), TTL, true);
    held(&deadline);
    pass(5300).await;
    assert!(deadline.enter());
}

/// Another session would take as long to open. The lock is granted once its deadline can be moved
/// before it passes.
#[tokio::test(start_paused = true)]
async fn slowly_opened_session_is_used_once_renewals_count() {
    for (opening, at_once) in [(4624, true), (4625, false), (6000, false)] {
        let opening = Duration::from_millis(opening);
        let deadline = Deadline::new(clock::now().saturating_sub(opening), TTL, true);
        // The keeper's first step.
        deadline.vitals();
        assert!(deadline.enter(), "{opening:?}");
        assert_eq!(deadline.grant().is_ok(), at_once, "{opening:?}");
        if at_once {
            continue;
        }
        for _ in 0..4 {
            assert_eq!(deadline.grant(), Err(NotGranted::Unconfirmed), "{opening:?}");
            pass(950).await;
            deadline.vitals();
        }
        deadline.renewed(clock::now(), TTL * 2 / 3);
        assert_eq!(deadline.grant(), Ok(()), "{opening:?}");
        assert_eq!(deadline.lost_reason(), None);
    }
}
