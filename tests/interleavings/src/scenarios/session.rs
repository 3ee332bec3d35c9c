//! The parts of a session that all attempts of a client share.

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::{sync::Arc, time::Duration};

use shuttle::{future::block_on, thread};

use super::{client::Clients, join};
use crate::{
    backend::{
        Entry, Facts, Queue, SequencePoint, Ticket,
        source::{Origin, Source},
        sql::key::ticket_in,
        stage::Stage,
    },
    fencing::{FencingGate, FencingToken},
    runtime::{Throttle, clock},
    session::{claims::Claims, own_keys::OwnKeys, watch_budget::WatchBudget},
    sync::interrupt,
};

const TTL: Duration = Duration::from_secs(10);

fn claims() -> Arc<Claims> {
    let facts = Facts { joins_late: true, ticket_in: Some(ticket_in), ..Facts::new(TTL) };
    Arc::new(Claims::new(&facts))
}

/// The key of an attempt is never a stray, from its request to its end.
pub fn attempts_key_is_no_stray() {
    let (claims, own_keys) = (claims(), OwnKeys::default());
    let [ticket, other] = [(); 2].map(|()| Ticket::random());
    let entry = Entry::new(format!("/ns/a/1-{ticket}"), 1);
    let own = own_keys.add(entry, SequencePoint(1), clock::now(), false);
    claims.open(ticket);
    let (settles, ends, settled) = (Arc::clone(&claims), Arc::clone(&claims), Arc::clone(&own));
    let settle = thread::spawn(move || settles.settle(ticket, &settled));
    let end = thread::spawn(move || {
        ends.open(other);
        ends.end(other);
    });
    assert!(!claims.is_stray(&own.entry), "it would be removed");
    assert!(!claims.suspects(&own.entry.key));
    join(settle);
    join(end);
    assert!(!claims.is_stray(&own.entry));
}

/// The search for keys without an attempt begins as soon as there may be some.
pub fn doubt_begins_the_search() {
    let claims = claims();
    let doubts = [(); 2].map(|()| {
        let claims = Arc::clone(&claims);
        thread::spawn(move || claims.doubt())
    });
    block_on(claims.doubted());
    assert!(claims.is_in_doubt());
    doubts.into_iter().for_each(join);
}

/// The last room in a session is given to one attempt.
pub fn last_room_is_given_once() {
    let budget = Arc::new(WatchBudget::new(100, usize::MAX));
    let queue = |name| Queue::new("/ns", name).expect("a valid name");
    let threads = ["a", "b"].map(|name| {
        let budget = Arc::clone(&budget);
        thread::spawn(move || budget.enter(&queue(name)))
    });
    let own = budget.enter(&queue("c"));
    let entered = threads.map(join).into_iter().chain([own]).filter(|entered| *entered);
    assert_eq!(entered.count(), 1);
}

/// Work that is limited to once in an interval is done by one thread.
pub fn throttled_work_is_due_once() {
    let throttle = Arc::new(Throttle::default());
    let threads = [(); 2].map(|()| {
        let throttle = Arc::clone(&throttle);
        thread::spawn(move || throttle.is_due(TTL))
    });
    let own = throttle.is_due(TTL);
    let due = threads.map(join).into_iter().chain([own]).filter(|due| *due);
    assert_eq!(due.count(), 1);
}

/// A request is sent, or its caller has given it up: not both.
pub fn request_begins_or_is_given_up() {
    let stage = Arc::new(Stage::default());
    let ends = [Stage::give_up, Stage::begin, Stage::give_up].map(|end| {
        let stage = Arc::clone(&stage);
        thread::spawn(move || end(&stage))
    });
    let begun = stage.begin();
    let ended = ends.map(join).into_iter().chain([begun]).filter(|ended| *ended);
    assert_eq!(ended.count(), 1);
}

/// The highest token that a resource has seen closes the gate to all lower ones.
pub fn gate_refuses_older_tokens() {
    let gate = Arc::new(FencingGate::new());
    let threads = [1, 2, 3].map(|token: u64| {
        let gate = Arc::clone(&gate);
        thread::spawn(move || gate.admit(token).is_ok())
    });
    let _first = gate.admit(1_u64);
    let [_, _, highest] = threads.map(join);
    assert!(highest, "no token is higher");
    assert_eq!(gate.highest().map(FencingToken::as_u64), Some(3));
}

/// An older value that took long to read does not replace a newer one.
pub fn newest_credentials_are_kept() {
    let version = Arc::new(AtomicU64::new(1));
    let reads = Arc::clone(&version);
    let origin = Origin::changing(move || {
        let read = reads.load(SeqCst);
        interrupt();
        Ok(read)
    });
    let source = Source::open(origin).expect("it can be read");
    clock::pass(TTL);
    let threads = [(); 2].map(|()| {
        let source = source.clone();
        thread::spawn(move || *source.newest())
    });
    version.store(2, SeqCst);
    source.expire();
    let first = *source.newest();
    let read = threads.map(join);
    assert_eq!(*source.newest(), 2, "the newest value was {first} and {read:?} before");
}

/// The tickets that a session reuses are given to one attempt each.
pub fn ticket_is_reused_once() {
    let clients = Clients::new();
    let session = clients.session();
    let ticket = Ticket::random();
    session.reuse(ticket);
    let queue = |name| Queue::new("/ns", name).expect("a valid name");
    let threads = ["a", "b"].map(|name| {
        let session = Arc::clone(&session);
        thread::spawn(move || session.take_on(&queue(name)))
    });
    let tickets = threads.map(join).map(|ticket| ticket.expect("the session lives"));
    assert_eq!(tickets.iter().filter(|given| **given == ticket).count(), 1);
    drop(session);
    clients.end();
}

/// A waiter is notified that its client grants no more locks, whenever it begins to wait.
pub fn waiter_is_notified_of_the_shutdown() {
    let shared = Arc::new(Clients::new().shared("a"));
    let waiters = [(); 2].map(|()| {
        let shared = Arc::clone(&shared);
        thread::spawn(move || block_on(shared.drained()))
    });
    shared.draining.send_replace(true);
    waiters.into_iter().for_each(join);
}
