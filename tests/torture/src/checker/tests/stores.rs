//! The checker requires only what a store guarantees.

use super::{
    primitives::{guarded, saw},
    *,
};

/// A read that started at `since`, and what it returned.
fn looked(since: u64, writer: u64, version: u64) -> Vec<Record> {
    let lock = "red".to_owned();
    let event = Event::Saw { lock, token: 0, writer, value: 1, version, since };
    vec![record(since + 10, "registers", event)]
}

#[test]
fn missing_acknowledged_writes_are_reported_without_counts() {
    let written = guarded(300, "a", 10, 5, Some(Outcome::Done));
    let of = |store, more: &[Vec<Record>]| {
        judged_of(store, [good(), saw(1, 0, 0, 1), written.clone(), more.concat()].concat())
    };
    let (kept, missing) = (looked(500, 5, 2), looked(500, 0, 1));
    assert_eq!(of(Store::Redis, std::slice::from_ref(&kept)), []);
    // The write may have arrived after that read.
    assert_eq!(of(Store::Redis, &[looked(305, 0, 1)]), []);
    assert_eq!(of(Store::Redis, std::slice::from_ref(&missing)), [GuardedWrites]);
    for (deed, store) in [(Deed::Wipe, Store::RedisWiped), (Deed::Rewind, Store::RedisEverysec)] {
        let lost = struck(&Kind::Servers(deed).to_string(), &store.to_string(), [400, 450]);
        assert_eq!(of(store, &[missing.clone(), lost.to_vec()]), []);
    }
    let killed = struck("kill-server", "redis", [400, 450]);
    assert_eq!(of(Store::Redis, &[missing, killed.to_vec()]), [GuardedWrites]);
    // There may not be more writes than were sent.
    assert_eq!(of(Store::Redis, &[kept, looked(900, 5, 3)]), [GuardedWrites]);
}

#[test]
fn store_without_order_must_serve_some_waiter() {
    let seen = Event::KeySeen { key: "/red/7".to_owned(), created: 0 };
    let (seen, passed) =
        (record(760, "coordinator", seen), called(770, "b", 2, Manner::Lock, None));
    let waits = called(750, "a", 2, Manner::Lock, None);
    let over = micros(run().bound()) + 2 * SECOND;
    let healed = record(800, "coordinator", Event::Healed);
    let first = vec![called(755, "c", 2, Manner::Lock, None), seen, passed, waits, healed];
    let late = [granted(over, "a", 2, 9, over + 5), releasing(over + 1, "a", 9)].concat();
    // The entry that was seen first is granted last, and the other call waits too long.
    let next = [granted(900, "b", 2, 6, 3000), releasing(950, "b", 6)].concat();
    let next = [next, granted(960, "c", 2, 7, 3000), releasing(970, "c", 7)].concat();
    let with = |others: &[Record]| [&good()[..], &first, others, &late].concat();
    let order = |store| {
        let mut violated = judged_of(store, with(&next));
        violated.retain(|it| *it != Token);
        violated
    };
    assert_eq!(order(Store::Redis), [Unserved, Order]);
    assert_eq!(order(Store::Redlock), []);
    // No call is granted in time.
    let unserved = [granted(over, "b", 2, 7, over + 5), releasing(over, "b", 7)].concat();
    assert_eq!(judged_of(Store::Redlock, with(&unserved)), [Unserved]);
    // Tokens must rise nevertheless, and there is one holder.
    let again = granted(over + 10, "b", 2, 9, over + 20);
    assert_eq!(judged_of(Store::Redlock, with(&[next, again].concat())).len(), 1);
}
