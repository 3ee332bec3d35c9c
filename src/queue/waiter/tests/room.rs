//! A waiter whose session has no room for a watch on the queue.

use super::*;

/// A key without its last digit. It is as long as Curator's.
const PREFIX: &str = "/ns/a!permits/_c_6f2bd2a8-1b5c-4f1c-9d4e-1d2f3a4b5c6d-lock-000000000";

/// The bytes that are reserved for a key's name, as in `watch_budget.rs`.
const NAME: usize = 64;

/// Returns the queue of the only permit, with these keys.
fn keys(numbers: &[u64]) -> Listing {
    let member = |number: &u64| Member {
        entry: Entry::new(format!("{PREFIX}{number}"), *number),
        label: Some("1of1".into()),
        detail: None,
    };
    Listing { members: numbers.iter().map(member).collect(), ..Listing::default() }
}

/// The holder is in the same session, and the watch on its key has taken the room.
#[tokio::test(start_paused = true)]
async fn permit_waiter_without_room_for_a_watch_polls() {
    let store = store_in(PREFIX, || Standing::First);
    let (gate, permits) = ("/ns/a!gate".len() + NAME, "/ns/a!permits".len() + NAME);
    // 20 bytes are for the second key in the queue.
    store.change(|facts| facts.watch_budget = gate + permits + 20);
    store.list.then(0, || Ok(keys(&[2])));
    for _ in 0..5 {
        store.list.then(0, || Ok(keys(&[2, 4])));
    }
    store.list.then(0, || Ok(keys(&[4])));
    let client = Client::open(store.shared()).await.unwrap();
    let semaphore = client.semaphore("a", 1);
    let _permit = semaphore.acquire().await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let second = timeout(Duration::from_secs(10), semaphore.acquire()).await;
    assert!(second.is_ok_and(|second| second.is_ok()));
    assert!(store.asked("watched list").is_empty());
    // The first permit took one list, and the second one joined with one.
    let pauses = fake_store::pauses(&store.asked("list")[2..]);
    assert_eq!(pauses.len(), 4, "{pauses:?}");
    assert!(pauses.iter().all(|pause| (500..=1501).contains(pause)), "{pauses:?}");
}
