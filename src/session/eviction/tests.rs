//! When a holder's key is watched and read, on a paused clock.

use super::*;
use crate::{
    backend::{Entry, Event, Facts, SequencePoint, Watch, name::Ticket},
    lost::LostReason,
    session::{
        fake_store::{FakeStore, grow, pauses},
        own_keys::OwnKeys,
    },
};

const TTL: Duration = Duration::from_secs(60);
const RECHECK: Duration = Duration::from_secs(20);

struct Watched {
    store: Arc<FakeStore>,
    deadline: Arc<Deadline>,
    granted: Arc<Granted>,
    own_keys: OwnKeys,
}

impl Watched {
    /// With room for this many bytes of paths.
    fn new(room: usize, answers: impl FnOnce(&FakeStore)) -> Self {
        let store = FakeStore::new();
        answers(&store);
        let deadline = Arc::new(Deadline::new(crate::runtime::clock::now(), TTL, false));
        let granted = start(
            store.of_a_session(),
            Arc::clone(&deadline),
            Arc::new(WatchBudget::new(room, usize::MAX)),
            Arc::new(Claims::new(&Facts {
                joins_late: true,
                ticket_in: Some(Ticket::parse),
                ..Facts::new(TTL)
            })),
            RECHECK,
        );
        Self { store, deadline, granted, own_keys: OwnKeys::default() }
    }

    fn granted(&self, key: &str, repeats: bool) -> Arc<OwnKey> {
        let entry = Entry::new(key, 1);
        let own_key = self.own_keys.add(entry, SequencePoint(1), Duration::ZERO, repeats);
        own_key.hold();
        self.granted.add(&own_key);
        own_key
    }
}

/// A watch that ends after this many milliseconds.
fn ends(after: u64, event: Result<Event, &'static str>) -> Watch {
    Box::pin(async move {
        sleep(Duration::from_millis(after)).await;
        event.map_err(|error| StoreError::Unavailable(error.into()))
    })
}

async fn pass(millis: u64) {
    sleep(Duration::from_millis(millis)).await;
}

#[tokio::test(start_paused = true)]
async fn long_held_keys_are_watched() {
    let watched = Watched::new(usize::MAX, |_| {});
    let (first, short) = (watched.granted("/q/1", false), watched.granted("/q/2", false));
    pass(100).await;
    let third = watched.granted("/q/3", false);
    short.leave();
    pass(1000).await;
    assert_eq!(watched.store.asked("watch /q/1"), [400]);
    assert!(watched.store.asked("watch /q/2").is_empty());
    assert_eq!(watched.store.asked("watch /q/3"), [500]);
    // The same after a time without holders.
    first.leave();
    third.leave();
    pass(1000).await;
    let _last = watched.granted("/q/4", false);
    pass(401).await;
    assert_eq!(watched.store.asked("watch /q/4").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn deleted_key_is_checked_and_reported() {
    for (there, expected) in [(false, Some(LostReason::Evicted)), (true, None)] {
        let watched = Watched::new(usize::MAX, |store| {
            store.watch.then(0, || Ok(Some(ends(100, Ok(Event::Deleted)))));
            store.watch.then(0, || Ok(Some(Box::pin(std::future::pending()))));
            let standing = move || Ok(if there { Standing::First } else { Standing::Evicted });
            store.standing.then(0, standing);
        });
        let own_key = watched.granted("/q/1", false);
        pass(600).await;
        assert_eq!(watched.store.asked("standing /q/1"), [500]);
        assert_eq!(own_key.lost_reason(), expected);
        assert_eq!(watched.store.asked("watch /q/1").len(), 1 + usize::from(there));
        assert_eq!(watched.deadline.lost_reason(), None);
    }
}

/// The event of a downgrade may arrive before its reply, which may also be lost.
#[tokio::test(start_paused = true)]
async fn replaced_key_is_not_evicted() {
    for is_replaced in [true, false] {
        let watched = Watched::new(usize::MAX, |store| {
            store.watch.then(0, || Ok(Some(ends(100, Ok(Event::Deleted)))));
            store.standing.then(0, || Ok(Standing::Evicted));
        });
        let own_key = watched.granted("/q/1", false);
        assert!(!is_replaced || own_key.replace());
        pass(600).await;
        assert_eq!(watched.store.asked("standing /q/1"), [500]);
        assert_eq!(own_key.lost_reason().is_none(), is_replaced);
    }
}

/// A key that is missing when its watch starts is read, too.
#[tokio::test(start_paused = true)]
async fn unwatchable_key_is_polled() {
    let watched = Watched::new(usize::MAX, |store| {
        store.watch.then(0, || Ok(None));
        store.standing.then(0, || Ok(Standing::Evicted));
    });
    let own_key = watched.granted("/q/1", false);
    pass(401).await;
    assert_eq!(own_key.lost_reason(), Some(LostReason::Evicted));
}

/// A watch that fails, or fails to start, proves nothing, and is started again.
#[tokio::test(start_paused = true)]
async fn failed_watches_are_retried_with_growing_pauses() {
    for broken in [false, true] {
        let watched = Watched::new(usize::MAX, |store| {
            store.watch.then(0, move || match broken {
                true => Ok(Some(ends(0, Err("it broke")))),
                false => Err(StoreError::Unavailable("no answer".into())),
            });
        });
        let own_key = watched.granted("/q/1", false);
        pass(1000).await;
        let asked = watched.store.asked("watch /q/1");
        grow(&pauses(&asked));
        assert!(own_key.lost_reason().is_none());
        assert!(watched.store.asked("standing /q/1").is_empty());
    }
}

/// On ZooKeeper, a client needs no right to read its keys.
#[tokio::test(start_paused = true)]
async fn denied_watch_is_retried_every_second() {
    let watched = Watched::new(usize::MAX, |store| {
        store.watch.then(0, || Err(StoreError::Denied("no right to read".into())));
    });
    let _own_key = watched.granted("/q/1", false);
    pass(3_300).await;
    assert_eq!(watched.store.asked("watch /q/1"), [400, 1_400, 2_400]);
}

/// If few keys are held, they are read soon after the store is available again, because an operator
/// may delete a key before its watch has started again.
#[tokio::test(start_paused = true)]
async fn pauses_before_a_lost_watch_are_short_if_few_keys_are_held() {
    for (keys, is_short) in [(1, true), (AT_ONCE, true), (AT_ONCE + 1, false)] {
        let watched = Watched::new(usize::MAX, |store| {
            store.watch.then(0, || Err(StoreError::Unavailable("no answer".into())));
        });
        let _held: Vec<_> =
            (1..=keys).map(|key| watched.granted(&format!("/q/{key}"), false)).collect();
        pass(10_000).await;
        let pauses = pauses(&watched.store.asked("watch /q/1"));
        let longest = pauses.iter().max().copied().unwrap_or_default();
        // A timer fires up to a millisecond late.
        let limit = u64::try_from(WATCH_AGAIN.as_millis()).unwrap() + 1;
        assert_eq!(longest <= limit, is_short, "{keys} keys: {pauses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn eviction_task_notices_session_end() {
    let watched = Watched::new(usize::MAX, |store| {
        store.watch.then(0, || Ok(None));
        store.standing.then(0, || Err(StoreError::SessionGone(LostReason::SessionExpired)));
    });
    let own_key = watched.granted("/q/1", false);
    pass(401).await;
    assert_eq!(watched.deadline.lost_reason(), Some(LostReason::SessionExpired));
    assert_eq!(own_key.lost_reason(), None, "its guard knows from the session");
    // Then the key is no longer watched.
    let asked = watched.store.asked("watch /q/1");
    pass(60_000).await;
    assert_eq!(watched.store.asked("watch /q/1"), asked);
}

/// A store may report the session's end when the watch starts, or as an event. Otherwise the next
/// keepalive reports it, a third of the TTL later.
#[tokio::test(start_paused = true)]
async fn session_that_ended_is_noticed_by_the_watch_on_the_own_key() {
    let gone = || StoreError::SessionGone(LostReason::SessionExpired);
    for begun in [false, true] {
        let watched = Watched::new(usize::MAX, |store| {
            store.watch.then(0, move || match begun {
                true => Ok(Some(Box::pin(async move { Err(gone()) }))),
                false => Err(gone()),
            });
        });
        let own_key = watched.granted("/q/1", false);
        pass(401).await;
        let lost = watched.deadline.lost_reason();
        assert_eq!(lost, Some(LostReason::SessionExpired), "begun: {begun}");
        assert_eq!(own_key.lost_reason(), None, "its guard knows from the session");
        assert_eq!(watched.store.asked("watch /q/1").len(), 1);
    }
}

/// Rechecks read all keys in one request, and then each missing key by itself.
#[tokio::test(start_paused = true)]
async fn all_own_keys_are_rechecked_periodically() {
    let watched = Watched::new(usize::MAX, |store| {
        store.own_keys.then(0, || Ok(vec!["/q/1".into(), "/q/2".into()]));
        store.standing.then(0, || Ok(Standing::First));
        store.standing.then(0, || Ok(Standing::Evicted));
    });
    let there = watched.granted("/q/1", false);
    let repeats = watched.granted("/q/2", true);
    let gone = watched.granted("/q/3", false);
    pass(400 + 19_900).await;
    assert!(watched.store.asked("own_keys").is_empty());
    pass(5200).await;
    assert_eq!(watched.store.asked("own_keys").len(), 1);
    assert!(watched.store.asked("standing /q/1").is_empty());
    assert_eq!(watched.store.asked("standing /q/2").len(), 1);
    assert_eq!(watched.store.asked("standing /q/3").len(), 1);
    assert_eq!(there.lost_reason(), None);
    assert_eq!(repeats.lost_reason(), None);
    assert_eq!(gone.lost_reason(), Some(LostReason::Evicted));
    // The next recheck: released keys are not read.
    pass(25_000).await;
    assert!(watched.store.asked("own_keys").len() >= 2);
    assert_eq!(watched.store.asked("standing /q/3").len(), 1);
    there.leave();
    repeats.leave();
    pass(1).await;
    let asked = watched.store.asked("own_keys").len();
    pass(100_000).await;
    assert_eq!(watched.store.asked("own_keys").len(), asked, "nothing is held");
}

/// Without a reply about one key, the others are left for the next recheck.
#[tokio::test(start_paused = true)]
async fn unanswered_recheck_ends_the_round() {
    let watched = Watched::new(usize::MAX, |store| {
        store.own_keys.then(0, || Ok(Vec::new()));
        store.standing.then(0, || Err(StoreError::Unavailable("no answer".into())));
    });
    let own_keys = [watched.granted("/q/1", false), watched.granted("/q/2", false)];
    pass(26_000).await;
    assert_eq!(watched.store.asked("standing /q/1").len(), 1);
    assert!(watched.store.asked("standing /q/2").is_empty());
    assert!(own_keys.iter().all(|own_key| own_key.lost_reason().is_none()));
}

/// Keys without room for a watch are read every second, all in one request.
#[tokio::test(start_paused = true)]
async fn keys_without_watch_room_are_checked_every_second() {
    let watched = Watched::new(0, |store| {
        store.own_keys.then(0, || Ok(vec!["/q/1".into(), "/q/2".into()]));
    });
    let own_keys = [watched.granted("/q/1", false), watched.granted("/q/2", false)];
    pass(10_400).await;
    assert!(watched.store.asked("watch /q/1").is_empty());
    let asked = watched.store.asked("own_keys");
    assert!((8..=10).contains(&asked.len()), "{asked:?}");
    assert!(own_keys.iter().all(|own_key| own_key.lost_reason().is_none()));
}

/// A key may be released, and created again with the same name.
#[tokio::test(start_paused = true)]
async fn recreated_key_is_watched_again() {
    let watched = Watched::new(usize::MAX, |store| store.own_keys.then(0, || Ok(Vec::new())));
    watched.store.standing.then(0, || Ok(Standing::Evicted));
    let before = watched.granted("/q/1", false);
    pass(500).await;
    let again = watched.granted("/q/1", false);
    pass(500).await;
    before.leave();
    pass(25_500).await;
    assert_eq!(again.lost_reason(), Some(LostReason::Evicted));
}

/// Once every key is watched, no more reads are needed.
#[tokio::test(start_paused = true)]
async fn unwatched_key_causes_polling_only_while_held() {
    // Room for one path.
    let watched = Watched::new("/q/1".len(), |store| {
        store.own_keys.then(0, || Ok(vec!["/q/1".into(), "/q/2".into()]));
    });
    let (first, second) = (watched.granted("/q/1", false), watched.granted("/q/2", false));
    pass(5000).await;
    let looks = watched.store.asked("own_keys").len();
    assert!((3..=5).contains(&looks), "{looks}");
    second.leave();
    // A round may have begun.
    pass(1500).await;
    let looks = watched.store.asked("own_keys").len();
    pass(15_000).await;
    assert_eq!(watched.store.asked("own_keys").len(), looks);
    assert!(first.is_held());
}
