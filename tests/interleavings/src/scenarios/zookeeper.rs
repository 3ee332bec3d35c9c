//! What the sessions of a client share on ZooKeeper.

use std::sync::{Arc, Mutex};

use shuttle::{future::block_on, thread};

use super::tags::Tags;
use crate::{
    backend::{Listing, zookeeper_lists::ZooKeeperStore},
    scenarios::join,
};

const DIR: &str = "/ns/a";

/// Callers that learn the same directory's tag take turns.
pub fn callers_learn_a_directory_in_turn() {
    let tags = Arc::new(Tags::default());
    let threads = [(); 2].map(|()| {
        let tags = Arc::clone(&tags);
        thread::spawn(move || tags.turn(DIR))
    });
    let own = tags.turn(DIR);
    for turn in threads.map(join) {
        assert!(Arc::ptr_eq(&own, &turn), "two callers learn at the same time");
    }
}

/// A release marker counts only in its own directory, although that is removed and created again.
pub fn mark_belongs_to_its_directory() {
    let tags = Arc::new(Tags::default());
    tags.learn(DIR, 1);
    let marks = [(); 2].map(|()| {
        let tags = Arc::clone(&tags);
        thread::spawn(move || tags.mark(DIR, "1-left"))
    });
    tags.learn(DIR, 2);
    marks.into_iter().for_each(join);
    assert_eq!((tags.get(DIR), tags.marked(DIR)), (Some(2), None));
}

/// A list that several callers share contains the keys that each of them knew before.
pub fn shared_list_contains_earlier_keys() {
    let keys = Arc::new(Mutex::new(Vec::<Box<str>>::new()));
    let listed = Arc::clone(&keys);
    let store = ZooKeeperStore::new(move || {
        let notes = listed.lock().expect("no thread panics").clone();
        Listing { notes, ..Listing::default() }
    });
    let join_and_list = |name: &'static str| {
        let (store, keys) = (Arc::clone(&store), Arc::clone(&keys));
        move || {
            keys.lock().expect("no thread panics").push(name.into());
            let listing = block_on(store.list(DIR)).expect("it is listed");
            assert!(listing.notes.iter().any(|note| **note == *name), "{name} is missing");
        }
    };
    let threads = ["b", "c"].map(|name| thread::spawn(join_and_list(name)));
    join_and_list("a")();
    threads.into_iter().for_each(join);
}
