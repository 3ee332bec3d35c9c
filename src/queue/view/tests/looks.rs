//! When a view lists the queue again.

use super::*;
use crate::{
    queue::{feed::Feed, snapshot::look},
    runtime::clock::Instant,
    session::Sessions,
};

/// The listings of a view, on a paused clock.
struct Looks {
    store: Arc<FakeStore>,
    session: Arc<Session>,
    view: View,
}

impl Looks {
    async fn new(values_change: bool, answers: impl FnOnce(&FakeStore)) -> Self {
        let store = FakeStore::new();
        answers(&store);
        let session = store.session().await;
        let view = View::new(Queue::new("/ns", "name").unwrap(), values_change);
        Self { store, session, view }
    }

    /// Returns what the view reports within this time.
    async fn within(&mut self, milliseconds: u64, watch: bool) -> Option<usize> {
        let next = self.view.next(&self.session, watch);
        let next = timeout(Duration::from_millis(milliseconds), next).await.ok()?;
        Some(next.unwrap().members.len())
    }

    /// Returns the pauses between listings.
    fn pauses(&self) -> Vec<u64> {
        fake_store::pauses(&self.store.asked("list"))
    }
}

/// A queue of this many entries. The watch ends after this many milliseconds.
fn listing(members: u64, event: Option<u64>) -> Listing {
    let member = |revision| {
        let entry = Entry::new(format!("k{revision}"), revision);
        Member { entry, label: None, detail: None }
    };
    let watch = event.map(|after| {
        Box::pin(async move {
            sleep(Duration::from_millis(after)).await;
            Ok(Event::Touched)
        }) as Watch
    });
    let members = (1..=members).map(member).collect();
    Listing { members, watch, ..Listing::default() }
}

fn silent() -> StoreError {
    StoreError::Unavailable("no answer".into())
}

#[tokio::test(start_paused = true)]
async fn failed_reads_are_retried_with_growing_pauses() {
    let mut looks = Looks::new(false, |store| store.list.then(0, || Err(silent()))).await;
    assert_eq!(looks.within(1000, true).await, None);
    grow(&looks.pauses());
}

/// A watch that repeatedly ends at once, although nothing has changed.
#[tokio::test(start_paused = true)]
async fn spurious_events_cause_reads_with_growing_pauses() {
    let mut looks = Looks::new(false, |store| {
        store.list.then(0, || Ok(listing(1, Some(0))));
        for _ in 0..6 {
            store.list.then(0, || Ok(listing(1, Some(0))));
        }
        store.list.then(0, || Ok(listing(2, Some(0))));
        store.list.then(0, || Ok(listing(2, Some(0))));
    })
    .await;
    assert_eq!(looks.within(0, true).await, Some(1), "at once");
    assert_eq!(looks.within(3000, true).await, Some(2));
    // The first two listings have no pause before them.
    grow(&looks.pauses()[1..]);
    let before = looks.pauses().len();
    // After a real change, the pause is short again.
    assert_eq!(looks.within(500, true).await, None);
    grow(&looks.pauses()[before + 1..]);
}

#[tokio::test(start_paused = true)]
async fn queue_view_rechecks_without_events() {
    for (watch, bounds) in [(true, 20_000..=25_001), (false, 500..=1501)] {
        let mut looks = Looks::new(true, |store| {
            store.list.then(0, || Ok(listing(0, None)));
        })
        .await;
        assert_eq!(looks.within(0, watch).await, Some(0));
        assert_eq!(looks.within(130_000, watch).await, None);
        let pauses = looks.pauses();
        assert!(pauses.len() >= 5, "{pauses:?}");
        assert!(pauses.iter().all(|pause| bounds.contains(pause)), "{watch}: {pauses:?}");
    }
}

/// The first key is watched only if its value may change and there is room for a watch.
#[tokio::test(start_paused = true)]
async fn queue_view_watches_first_key_if_needed() {
    for (values_change, watch, watched) in
        [(true, true, 1), (true, false, 0), (false, true, 0), (false, false, 0)]
    {
        let mut looks = Looks::new(values_change, |store| {
            store.list.then(0, || Ok(listing(2, None)));
            store.urgent_watch.then(0, || Ok(Some(Box::pin(pending()))));
        })
        .await;
        assert_eq!(looks.within(400, watch).await, Some(2));
        assert_eq!(looks.store.asked("urgent watch k1").len(), watched, "{values_change} {watch}");
        // The value is read after the watch has started, so that no change is missed.
        assert_eq!(looks.store.asked("list").len(), 1 + watched);
        assert_eq!(looks.within(400, watch).await, None);
        assert_eq!(looks.store.asked("urgent watch k1").len(), watched);
    }
}

/// A first key that is deleted before its watch starts.
#[tokio::test(start_paused = true)]
async fn deleted_keys_are_checked_with_growing_pauses() {
    let mut looks = Looks::new(true, |store| {
        store.list.then(0, || Ok(listing(1, None)));
        store.urgent_watch.then(0, || Ok(None));
    })
    .await;
    assert_eq!(looks.within(500, true).await, None);
    grow(&looks.pauses());
}

/// A first key that exists, and that no watch finds.
#[tokio::test(start_paused = true)]
async fn unwatchable_first_key_is_polled() {
    let mut looks = Looks::new(true, |store| {
        for _ in 0..12 {
            store.list.then(0, || Ok(listing(1, None)));
        }
        store.list.then(0, || Ok(listing(2, None)));
        store.urgent_watch.then(0, || Ok(None));
    })
    .await;
    assert_eq!(looks.within(2000, true).await, Some(1));
    assert_eq!(looks.within(5000, true).await, Some(2));
    assert_eq!(looks.within(5000, true).await, None, "nothing has changed");
    assert!(looks.pauses().iter().all(|pause| *pause <= 1001), "{:?}", looks.pauses());
}

#[tokio::test(start_paused = true)]
async fn session_end_stops_queue_reads() {
    let reason = LostReason::SessionExpired;
    let mut by_list = Looks::new(false, |store| {
        store.list.then(0, move || Err(StoreError::SessionGone(reason)));
    })
    .await;
    assert_eq!(by_list.view.next(&by_list.session, true).await, Err(reason));
    assert_eq!(by_list.session.deadline.lost_reason(), Some(reason));
    let mut looks = Looks::new(false, |store| store.list.then(0, || Ok(listing(1, None)))).await;
    assert_eq!(looks.within(10, true).await, Some(1));
    looks.session.deadline.lose(reason);
    assert_eq!(looks.view.next(&looks.session, true).await, Err(reason));
    // In another session, the view lists at once, and does not report the same again.
    looks.session = looks.store.session().await;
    let before = looks.store.asked("list").len();
    assert_eq!(looks.within(10, true).await, None);
    assert_eq!(looks.store.asked("list").len(), before + 1);
}

/// A single listing gives up after the time of two requests, and after its fourth session.
#[tokio::test(start_paused = true)]
async fn single_read_is_bounded() {
    let queue = Queue::new("/ns", "name").unwrap();
    for (answer, opened, least, most) in [
        (silent as fn() -> StoreError, 1, 1000, 3001),
        (|| StoreError::SessionGone(LostReason::SessionExpired), 4, 0, 1),
        (|| StoreError::SessionGone(LostReason::ClientClosed), 1, 0, 1),
        (|| StoreError::Denied("no".into()), 1, 0, 1),
    ] {
        let store = FakeStore::new();
        store.list.then(0, move || Err(answer()));
        store.close.then(0, || Ok(()));
        let sessions = Sessions::open(store.shared()).await.unwrap();
        let began = Instant::now();
        assert!(look(&sessions, &queue, true).await.is_err());
        let took = began.elapsed().as_millis();
        assert!((least..=most).contains(&took), "{:?}: {took}", answer());
        assert_eq!(store.asked("open").len(), opened, "{:?}", answer());
    }
}

/// An endless watch survives failures, in whichever session exists, with growing pauses.
#[tokio::test(start_paused = true)]
async fn follower_survives_lost_sessions() {
    let store = FakeStore::new();
    for _ in 0..5 {
        store.list.then(0, || Err(StoreError::SessionGone(LostReason::SessionExpired)));
    }
    store.list.then(0, || Ok(listing(1, None)));
    store.list.then(0, || Err(StoreError::SessionGone(LostReason::SessionExpired)));
    store.close.then(0, || Ok(()));
    let sessions = Sessions::open(store.shared()).await.unwrap();
    let queue = Queue::new("/ns", "name").unwrap();
    let mut feed = Feed::new(&sessions, &queue, false, |snapshot| Some(snapshot.members.len()));
    assert_eq!(feed.next().await, Some(1));
    let asked = store.asked("list");
    grow(&fake_store::pauses(&asked));
    // Then the pauses are short again, and only rechecks follow.
    assert!(timeout(Duration::from_secs(26), feed.next()).await.is_err());
    let asked = store.asked("list");
    grow(&fake_store::pauses(&asked[6..]));
    sessions.close().await.unwrap();
    assert_eq!(feed.next().await, None);
    assert_eq!(feed.next().await, None);
}
