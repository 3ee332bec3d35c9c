//! When a session is renewed, abandoned and ended, on a paused clock. The TTL is 2,400 ms. The
//! session is renewed every 800 ms, and a renewal is trusted for 2,160 ms.

use std::ops::RangeInclusive;

use super::*;
use crate::{
    lost::LostReason,
    session::fake_store::{FakeStore, pauses},
};

const TTL: Duration = Duration::from_millis(2400);

/// A session that has just been opened.
struct Kept {
    store: Arc<FakeStore>,
    deadline: Arc<Deadline>,
    hurry: Arc<Notify>,
    ended: tokio::task::JoinHandle<Result<()>>,
}

impl Kept {
    fn new(renewed_when_idle: bool, answers: impl FnOnce(&FakeStore)) -> Self {
        let store = FakeStore::new();
        answers(&store);
        Self::of(store, Facts { renewed_when_idle, ..Facts::new(TTL) })
    }

    fn of(store: Arc<FakeStore>, facts: Facts) -> Self {
        let deadline = Arc::new(Deadline::new(clock::now(), TTL, facts.relays_renewals));
        let hurry = Arc::<Notify>::default();
        let ended = tokio::spawn(keep(
            Arc::clone(&deadline),
            store.of_a_session(),
            facts,
            Arc::clone(&hurry),
        ));
        Self { store, deadline, hurry, ended }
    }

    /// A session with a lock that is held.
    fn held(answers: impl FnOnce(&FakeStore)) -> Self {
        let kept = Self::new(true, answers);
        assert!(kept.deadline.enter());
        kept.deadline.grant().unwrap();
        kept
    }

    /// Returns when the store got requests until then.
    async fn asked(&self, millis: u64) -> Vec<u64> {
        sleep(Duration::from_millis(millis)).await;
        self.store.asked("keep_alive")
    }
}

fn silent() -> StoreError {
    StoreError::Unavailable("no answer".into())
}

#[tokio::test(start_paused = true)]
async fn a_session_is_renewed_each_third_of_its_ttl() {
    let kept = Kept::held(|store| store.keep_alive.then(100, || Ok(TTL)));
    assert_eq!(kept.asked(5000).await, [800, 1600, 2400, 3200, 4000, 4800]);
    // The TTL counts from the sending of the request.
    assert_eq!(kept.deadline.remaining().as_millis(), 4800 + 2160 - 5000);
}

/// A store may confirm less than the TTL: the next renewal comes in time for that.
#[tokio::test(start_paused = true)]
async fn shorter_renewal_is_followed_sooner() {
    let kept = Kept::held(|store| {
        store.keep_alive.then(0, || Ok(TTL / 2));
        store.keep_alive.then(0, || Ok(Duration::ZERO));
        store.keep_alive.then(0, || Ok(TTL));
    });
    assert_eq!(kept.asked(2200).await, [800, 1200, 1300, 2100]);
    assert_eq!(kept.deadline.lost_reason(), None);
}

#[tokio::test(start_paused = true)]
async fn unanswered_renewal_is_retried_on_another_server() {
    let kept = Kept::held(|store| store.close.then(0, || Ok(())));
    let lost = kept.deadline.lost();
    assert_eq!(lost.await, LostReason::DeadlinePassed);
    assert_eq!(kept.asked(0).await, [800, 1200, 1600, 2000]);
    // The holder's requests in flight may finish while the store still keeps the session.
    kept.ended.await.unwrap().unwrap();
    assert_eq!(kept.store.asked("close"), [2400]);
}

/// While that many renewals have no reply, the keeper sends no other.
#[tokio::test(start_paused = true)]
async fn at_most_six_renewals_overlap() {
    let kept = Kept::new(true, |store| store.keep_alive.then(4000, || Ok(TTL)));
    assert_eq!(kept.asked(4700).await, [800, 1200, 1600, 2000, 2400, 2800]);
    let later = kept.asked(1000).await;
    assert!(later.len() > 6, "{later:?}");
}

/// A second renewal would only wait for the first, and other requests for both.
#[tokio::test(start_paused = true)]
async fn sequential_stores_get_one_renewal_at_a_time() {
    let store = FakeStore::new();
    store.keep_alive.then(700, || Ok(TTL));
    let kept = Kept::of(store, Facts { one_at_a_time: true, ..Facts::new(TTL) });
    assert_eq!(kept.asked(3000).await, [800, 1600, 2400]);
    // A renewal that takes longer than the interval is followed by the next one at once.
    let store = FakeStore::new();
    store.keep_alive.then(1000, || Ok(TTL));
    let kept = Kept::of(store, Facts { one_at_a_time: true, ..Facts::new(TTL) });
    assert_eq!(kept.asked(4000).await, [800, 1800, 2800, 3800]);
}

#[tokio::test(start_paused = true)]
async fn failed_renewals_are_retried_with_growing_pauses() {
    let kept = Kept::held(|store| {
        store.keep_alive.then(0, || Err(silent()));
        store.close.then(0, || Ok(()));
    });
    let asked = kept.asked(2100).await;
    let pauses = pauses(&asked);
    let within =
        |pause: u64, bounds: RangeInclusive<u64>| assert!(bounds.contains(&pause), "{asked:?}");
    assert_eq!(asked[0], 800);
    within(pauses[0], 10..=21);
    within(pauses[1], 20..=41);
    within(pauses[2], 40..=81);
    pauses[3..].iter().for_each(|pause| within(*pause, 80..=101));
    assert!(kept.deadline.lost_reason().is_none());
}

#[tokio::test(start_paused = true)]
async fn refused_renewal_is_retried_after_half_an_interval() {
    let kept =
        Kept::held(|store| store.keep_alive.then(0, || Err(StoreError::Denied("who?".into()))));
    assert_eq!(kept.asked(2100).await, [800, 1200, 1600, 2000]);
}

/// The pause depends only on the failures since the last reply.
#[tokio::test(start_paused = true)]
async fn renewal_pauses_reset_after_a_reply() {
    let kept = Kept::held(|store| {
        for _ in 0..3 {
            store.keep_alive.then(0, || Err(silent()));
        }
        store.keep_alive.then(0, || Ok(TTL));
        store.keep_alive.then(0, || Err(silent()));
    });
    let asked = kept.asked(1900).await;
    let (renewed, next) = (asked[3], asked[4]);
    assert_eq!(next - renewed, 800, "{asked:?}");
    assert!((10..=21).contains(&(asked[5] - next)), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn unused_session_is_not_renewed() {
    for renewed_when_idle in [false, true] {
        let kept = Kept::new(renewed_when_idle, |store| store.keep_alive.then(0, || Ok(TTL)));
        assert_eq!(kept.asked(5000).await.len(), if renewed_when_idle { 6 } else { 0 });
        assert_eq!(kept.deadline.lost_reason(), None);
        // Once the session is in use, it is renewed at the keeper's next periodic check.
        assert!(kept.deadline.enter());
        let soon = kept.asked(301).await;
        assert!(renewed_when_idle || soon.len() == 1, "{soon:?}");
        kept.deadline.left();
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_without_an_answer_is_kept() {
    let kept = Kept::new(true, |_| {});
    kept.asked(30_000).await;
    assert_eq!(kept.deadline.lost_reason(), None);
}

#[tokio::test(start_paused = true)]
async fn the_stores_report_of_the_end_is_passed_on() {
    let reason = LostReason::SessionExpired;
    let by_renewal = Kept::held(|store| {
        store.keep_alive.then(50, move || Err(StoreError::SessionGone(reason)));
        store.close.then(0, move || Err(StoreError::SessionGone(reason)));
    });
    assert_eq!(by_renewal.deadline.lost().await, reason);
    // No request can be in flight in a session that has ended.
    by_renewal.ended.await.unwrap().unwrap();
    assert_eq!(by_renewal.store.asked("close"), [850]);
    let unasked = Kept::held(|store| {
        store.ended.then(300, move || Ok(reason));
        store.close.then(0, || Ok(()));
    });
    assert_eq!(unasked.deadline.lost().await, reason);
    unasked.ended.await.unwrap().unwrap();
    assert_eq!(unasked.store.asked("close"), [300]);
}

#[tokio::test(start_paused = true)]
async fn hurried_close_does_not_wait_for_holders() {
    let kept = Kept::held(|store| store.close.then(0, || Ok(())));
    kept.deadline.lost().await;
    kept.hurry.notify_one();
    kept.ended.await.unwrap().unwrap();
    assert_eq!(kept.store.asked("close"), [2160]);
}

#[tokio::test(start_paused = true)]
async fn session_close_is_retried_for_two_ttls() {
    let kept = Kept::new(true, |store| store.close.then(0, || Err(silent())));
    kept.deadline.lose(LostReason::ClientClosed);
    assert!(kept.ended.await.unwrap().unwrap_err().is_transient());
    let asked = kept.store.asked("close");
    let last = asked.last().copied().unwrap();
    assert!((4800 - 1000..=4800 + 1000).contains(&last), "{asked:?}");
    let refused = Kept::new(true, |store| {
        store.close.then(0, || Err(StoreError::Denied("no".into())));
    });
    refused.deadline.lose(LostReason::ClientClosed);
    assert!(!refused.ended.await.unwrap().unwrap_err().is_transient());
    assert_eq!(refused.store.asked("close"), [0]);
}

/// A renewal that is sent after a pause is trusted for less time, so another one follows as soon as
/// it counts in full.
#[tokio::test(start_paused = true)]
async fn session_is_renewed_as_soon_as_it_counts_after_a_stall() {
    let store = FakeStore::new();
    store.keep_alive.then(0, || Ok(TTL));
    let kept = Kept::of(store, Facts { relays_renewals: true, ..Facts::new(TTL) });
    tokio::task::yield_now().await;
    // The process pauses for two thirds of a second.
    tokio::time::advance(Duration::from_millis(660)).await;
    let asked = kept.asked(4000).await;
    // Three eighths of the TTL after the pause, and then as usual.
    assert_eq!(asked, [800, 1560, 2360, 3160, 3960], "{asked:?}");
}

/// One additional renewal is enough, even if the keeper is late.
#[tokio::test(start_paused = true)]
async fn late_keeper_does_not_catch_up() {
    let store = FakeStore::new();
    store.keep_alive.then(0, || Ok(TTL));
    let kept = Kept::of(store, Facts { relays_renewals: true, ..Facts::new(TTL) });
    tokio::task::yield_now().await;
    tokio::time::advance(Duration::from_millis(660)).await;
    kept.asked(790).await;
    // No pause, but past the moment from which a renewal counts in full.
    tokio::time::advance(Duration::from_millis(200)).await;
    let asked = kept.asked(1000).await;
    assert_eq!(asked, [800, 1650, 2450], "{asked:?}");
}
