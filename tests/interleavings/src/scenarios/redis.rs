//! What the connections of a client to Redis share.

use core::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::{sync::Arc, time::Duration};

use shuttle::{future::block_on, thread};

use super::{channels::Channels, clock::WatchedClock, owner::Owner};
use crate::{
    runtime::clock,
    scenarios::{join, sql::reading},
    sync::{interrupt, watch::Receiver},
};

const SECOND: Duration = Duration::from_secs(1);

/// Removes a listener. Returns `true` if it was the last one.
fn is_last(channels: &Channels, name: &str, heard: &Receiver<u64>) -> bool {
    let mut last = false;
    channels.leave(name, heard, || last = true);
    last
}

/// A listener that checks after it has registered misses no message, although the connection was
/// lost and a former listener leaves.
pub fn no_message_is_missed() {
    let (channels, sent) = (Arc::new(Channels::default()), Arc::new(AtomicBool::new(false)));
    let name: Arc<str> = "a".into();
    let former = channels.listen(&name);
    channels.lose();
    let (leaves, of_former) = (Arc::clone(&channels), Arc::clone(&name));
    let leave = thread::spawn(move || is_last(&leaves, &of_former, &former));
    let listeners = [(); 2].map(|()| {
        let (channels, sent, name) = (Arc::clone(&channels), Arc::clone(&sent), Arc::clone(&name));
        thread::spawn(move || {
            let mut heard = channels.listen(&name);
            interrupt();
            if !sent.load(SeqCst) {
                block_on(heard.changed()).expect("the connection is not lost");
            }
            is_last(&channels, &name, &heard)
        })
    });
    sent.store(true, SeqCst);
    channels.tell("a");
    assert!(!join(leave), "it listened on the former connection");
    let last = listeners.map(join);
    assert!(last.contains(&true), "none of them ends the subscription");
    assert!(channels.is_empty());
}

/// The session is subscribed to a channel for as long as the channel has a listener.
pub fn subscription_ends_before_the_next_one_begins() {
    let (channels, on_server) = (Arc::new(Channels::default()), Arc::new(AtomicBool::new(true)));
    let name: Arc<str> = "a".into();
    let first = channels.listen(&name);
    let (leaves, of_first) = (Arc::clone(&channels), Arc::clone(&name));
    let ends = Arc::clone(&on_server);
    let unsubscribe = move || {
        interrupt();
        ends.store(false, SeqCst);
    };
    let leave = thread::spawn(move || leaves.leave(&of_first, &first, unsubscribe));
    let listeners = [(); 2].map(|()| {
        let (channels, name) = (Arc::clone(&channels), Arc::clone(&name));
        let on_server = Arc::clone(&on_server);
        thread::spawn(move || {
            let heard = channels.listen(&name);
            on_server.store(true, SeqCst);
            heard
        })
    });
    join(leave);
    let _heard = listeners.map(join);
    assert!(on_server.load(SeqCst), "a listener has no subscription on the server");
}

/// A request never draws conclusions from the clock of another server.
pub fn clock_belongs_to_the_server() {
    let watched = Arc::new(WatchedClock::default());
    watched.watch_within(SECOND * 10);
    watched.meet("one");
    clock::pass(SECOND);
    let now = clock::now();
    watched.read("one", &reading(1_000, 1), now);
    let (meets, acts) = (Arc::clone(&watched), Arc::clone(&watched));
    let meet = thread::spawn(move || {
        meets.meet("two");
        meets.read("two", &reading(9_000, 1), now);
    });
    let asks = thread::spawn(move || {
        if let Some(trust) = acts.clock_trust("one", now) {
            acts.acted_on("one", &trust);
        }
    });
    if let Some(trust) = watched.clock_trust("one", now) {
        assert_eq!(trust.since, 1_000_000_000, "the clock of another server");
    }
    join(meet);
    join(asks);
    let trust = watched.clock_trust("two", now).expect("it was read");
    assert!(trust.clips, "the request was sent to another server");
}

/// Several requests contain the session's owner until the server knows it.
pub fn owner_is_sent_until_it_is_known() {
    let owner = Arc::new(Owner::default());
    let request = |owner: Arc<Owner>| {
        move || {
            let encoded = owner.encoded(b"me\n1");
            assert!(encoded.is_empty() || encoded == b"ome");
            owner.sent(&encoded);
        }
    };
    let threads = [(); 2].map(|()| thread::spawn(request(Arc::clone(&owner))));
    request(Arc::clone(&owner))();
    threads.into_iter().for_each(join);
    assert!(owner.encoded(b"me\n2").is_empty(), "the server knows the owner");
}
