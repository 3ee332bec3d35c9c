//! What the sessions of a client share on Redlock.

use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::{sync::Arc, time::Duration};

use shuttle::{future::block_on, thread};

use super::{
    contended::Contended,
    keys::{Key, Keys},
    strays::Strays,
};
use crate::{
    backend::{Joiner, Queue, Ticket},
    runtime::clock,
    scenarios::join,
    sync::interrupt,
};

const TTL: Duration = Duration::from_secs(10);

fn key(name: &str) -> Key {
    let queue = Queue::new("/ns", name).expect("a valid name");
    let joiner = Joiner { queue: &queue, ticket: Ticket::random() };
    Keys::new(TTL).begin(joiner, name, clock::now())
}

/// One task at a time frees the values on a node, and frees all of them.
pub fn all_strays_are_freed_by_one_task() {
    let (strays, tasks) = (Arc::new(Strays::default()), Arc::new(AtomicUsize::new(0)));
    let freed = Arc::new(AtomicUsize::new(0));
    let add = |name| {
        let (strays, tasks, freed) = (Arc::clone(&strays), Arc::clone(&tasks), Arc::clone(&freed));
        move || {
            if !strays.add(&[key(name)], TTL, clock::now()) {
                return;
            }
            loop {
                let next = strays.next(clock::now());
                if next.is_empty() {
                    return;
                }
                assert_eq!(tasks.fetch_add(1, SeqCst), 0, "two tasks");
                interrupt();
                tasks.fetch_sub(1, SeqCst);
                freed.fetch_add(next.len(), SeqCst);
                strays.freed(&next);
            }
        }
    };
    let threads = ["a", "b"].map(|name| thread::spawn(add(name)));
    threads.into_iter().for_each(join);
    assert_eq!(freed.load(SeqCst), 2, "a value stays on the node");
}

/// Several calls meet other clients in different locks.
pub fn contended_locks_are_remembered() {
    let contended = Arc::new(Contended::default());
    let threads = ["a", "b"].map(|lock| {
        let contended = Arc::clone(&contended);
        thread::spawn(move || contended.meet(&lock.into(), None))
    });
    contended.meet(&"c".into(), Some(TTL));
    threads.into_iter().for_each(join);
    assert!(["a", "b", "c"].iter().all(|lock| contended.is(lock)));
    assert_eq!(contended.free_within("c"), Some(TTL));
}

/// A lock that is lost while a watch begins ends the watch.
pub fn watch_of_a_lost_key_ends() {
    let key = key("a");
    let watches = [(); 2].map(|()| {
        let key = key.clone();
        thread::spawn(move || {
            let mut losses = key.losses();
            block_on(losses.wait_for(|lost| *lost)).expect("the key exists");
            assert!(key.is_lost());
        })
    });
    key.lose();
    watches.into_iter().for_each(join);
}
