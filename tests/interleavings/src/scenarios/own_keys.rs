//! The keys of one session, with threads that join, hold, expire, release and evict.

use std::{sync::Arc, time::Duration};

use shuttle::{future::block_on, thread};

use super::join;
use crate::{
    backend::{Entry, LeaveOutcome, SequencePoint},
    lost::LostReason,
    runtime::clock,
    session::{
        own_key::{End, OwnKey},
        own_keys::OwnKeys,
    },
};

fn add(own_keys: &OwnKeys, key: &str) -> Arc<OwnKey> {
    own_keys.add(Entry::new(key, 1), SequencePoint(1), clock::now(), false)
}

/// A key whose holder has just expired.
fn overdue() -> Arc<OwnKey> {
    let own = add(&OwnKeys::default(), "/q/1");
    own.hold();
    own.hold_until(clock::now());
    own
}

/// A hold ends once: by its timer or by its guard.
pub fn hold_ends_exactly_once() {
    let own = overdue();
    let (expires, leaves) = (Arc::clone(&own), Arc::clone(&own));
    let ends = [thread::spawn(move || expires.expire()), thread::spawn(move || leaves.leave())];
    block_on(own.over());
    let [expired, left] = ends.map(join);
    assert_ne!(expired, left, "the same hold ends twice, or never");
    assert!(!own.is_held());
}

/// An expired key is either deleted or replaced: not both.
pub fn key_is_expired_or_replaced() {
    let own = overdue();
    let (expires, waits) = (Arc::clone(&own), Arc::clone(&own));
    let expired = thread::spawn(move || expires.expire());
    let left = thread::spawn(move || block_on(waits.left()));
    let replaced = own.replace();
    if replaced {
        assert!(own.leave());
    }
    join(left);
    assert_ne!(join(expired), replaced);
}

/// A waiter learns how its predecessor's key ended, at any time.
pub fn successor_learns_how_its_predecessor_ended() {
    let own_keys = Arc::new(OwnKeys::default());
    let (ahead, own) = (add(&own_keys, "/q/1"), add(&own_keys, "/q/2"));
    ahead.hold();
    let (released, waits) = (Arc::clone(&ahead), Arc::clone(&ahead));
    let release = thread::spawn(move || {
        let held = released.leave();
        let successor = released.successor();
        let left = LeaveOutcome { existed: true, successor: true, at: SequencePoint(2) };
        let end = released.end(held, left, successor.as_ref());
        own_keys.end(&released, end);
    });
    let waiter = thread::spawn(move || {
        let End::Passed { successor, .. } = block_on(waits.ended(&own)) else {
            panic!("the key was both held and deleted");
        };
        assert!(successor.upgrade().is_none_or(|successor| Arc::ptr_eq(&successor, &own)));
    });
    block_on(ahead.left());
    assert!(!ahead.is_held());
    join(release);
    join(waiter);
}

/// A holder is notified of one loss: of several causes the first one counts.
pub fn first_loss_reason_of_a_key_is_kept() {
    let own_keys = Arc::new(OwnKeys::default());
    let own = add(&own_keys, "/q/1");
    own.hold();
    let losses = [LostReason::Evicted, LostReason::HeldTooLong].map(|reason| {
        let own_keys = Arc::clone(&own_keys);
        thread::spawn(move || assert!(own_keys.lose("/q/1", reason)))
    });
    let reason = block_on(own.lost());
    assert_eq!(own.lost_reason(), Some(reason));
    losses.into_iter().for_each(join);
    assert_eq!(own.lost_reason(), Some(reason));
}

/// The store reports a loss while the key is added: its holder is notified if and only if the
/// report is accepted; otherwise the store reports it again.
pub fn reported_loss_reaches_the_holder_or_is_refused() {
    let own_keys = Arc::new(OwnKeys::default());
    let (reports, adds) = (Arc::clone(&own_keys), Arc::clone(&own_keys));
    let reported = thread::spawn(move || reports.lose("/q/1", LostReason::Evicted));
    let added = thread::spawn(move || add(&adds, "/q/1"));
    let again = own_keys.lose("/q/1", LostReason::Evicted);
    let (reported, own) = (join(reported), join(added));
    assert_eq!(own.lost_reason().is_some(), reported || again);
    assert!(own_keys.lose("/q/1", LostReason::Evicted));
    assert_eq!(block_on(own.lost()), LostReason::Evicted);
}

/// A key whose join is under way during the search is found, even if other keys join first.
pub fn key_joining_during_search_is_found() {
    let own_keys = Arc::new(OwnKeys::default());
    let joining = own_keys.joins();
    let (looks, others) = (Arc::clone(&own_keys), Arc::clone(&own_keys));
    let found = thread::spawn(move || block_on(looks.find_soon(&Entry::new("/q/1", 0))));
    let other = thread::spawn(move || add(&others, "/q/2"));
    let own = add(&own_keys, "/q/1");
    drop(joining);
    let found = join(found).expect("the key joined before");
    assert!(Arc::ptr_eq(&found, &own));
    join(other);
}

/// A key whose name is reused while the old one is forgotten stays known.
pub fn reused_name_is_not_forgotten() {
    let own_keys = Arc::new(OwnKeys::default());
    own_keys.end(&add(&own_keys, "/q/1"), End::Unclear);
    let other = add(&own_keys, "/q/2");
    // As many keys as are remembered.
    for _ in 1..256 {
        own_keys.end(&other, End::Unclear);
    }
    let (adds, ends) = (Arc::clone(&own_keys), Arc::clone(&own_keys));
    let added = thread::spawn(move || add(&adds, "/q/1"));
    let ended = thread::spawn(move || ends.end(&other, End::Unclear));
    let last = add(&own_keys, "/q/3");
    own_keys.end(&last, End::Unclear);
    let added = join(added);
    let found = own_keys.find(&Entry::new("/q/1", 1)).expect("the key is known");
    assert!(Arc::ptr_eq(&found, &added));
    join(ended);
}
