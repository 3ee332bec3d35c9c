//! What the sessions of a client share on etcd.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use shuttle::thread;

use super::{
    cached_watch::CachedWatch,
    contention::{Contention, Level},
};
use crate::scenarios::join;

/// A call receives the cached watch only if it fits.
pub fn cached_watch_fits() {
    let cached = CachedWatch::default();
    cached.keep(1);
    let (replaces, takes) = (cached.clone(), cached.clone());
    let replace = thread::spawn(move || replaces.keep(2));
    let take = thread::spawn(move || takes.take(|watch| *watch == 1));
    let taken = cached.take(|watch| *watch == 1);
    join(replace);
    let others = join(take);
    assert!([taken, others].iter().flatten().all(|watch| *watch == 1), "{taken:?} {others:?}");
    assert!(taken.is_none() || others.is_none(), "two calls use one watch");
}

/// Two queues that share a slot do not take over each other's level.
pub fn level_belongs_to_the_queue() {
    let slot = |dir: &str| {
        let mut hasher = DefaultHasher::new();
        dir.hash(&mut hasher);
        hasher.finish() % 256
    };
    let numbered = |number: u32| format!("/ns/{number}");
    let one = numbered(0);
    let other = (1..).map(numbered).find(|other| slot(other) == slot(&one)).expect("a collision");
    let contention = Arc::new(Contention::new());
    contention.set(&one, Level::Cooling);
    let sets = [Level::Many, Level::Few].map(|level| {
        let (contention, other) = (Arc::clone(&contention), other.clone());
        thread::spawn(move || contention.set(&other, level))
    });
    for _ in 0..2 {
        let level = contention.level(&one);
        assert!([Level::Cooling, Level::Cold].contains(&level), "{level:?}");
    }
    sets.into_iter().for_each(join);
}
