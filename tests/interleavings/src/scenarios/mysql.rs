//! What a session's callers and its polls of MySQL share.

use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::{sync::Arc, time::Duration};

use shuttle::{future::block_on, thread};

use super::{lockable::Lockable, looks::Seen, watches::Watches};
use crate::{
    backend::{Ticket, sql::watched::What},
    runtime::clock,
    scenarios::{join, signal::Signal},
};

/// A waiter that has read an older state of an entry than another one is notified.
pub fn waiter_with_an_older_state_is_notified() {
    let (watches, version) = (Arc::new(Watches::new(1)), Arc::new(AtomicUsize::new(1)));
    let what: What = ("/ns/a".into(), 1);
    let seen =
        |version: &AtomicUsize| Seen { is: version.load(SeqCst).to_string(), left: None, ahead: 0 };
    let noted = Signal::default();
    let waiters = [(); 2].map(|()| {
        let (watches, version, what) = (Arc::clone(&watches), Arc::clone(&version), what.clone());
        let noted = noted.clone();
        thread::spawn(move || {
            let mut waiting = watches.wait(what.clone());
            let first = seen(&version);
            let is_old = first.is == "1";
            watches.note(&what, first);
            noted.ask();
            if is_old {
                block_on(waiting.changed()).expect("the connection is not lost");
            }
            watches.leave(&waiting);
        })
    });
    version.store(2, SeqCst);
    block_on(noted.asked(2));
    clock::pass(Duration::from_secs(1));
    let due = watches.take_due();
    let shown = due.what.iter().map(|what| (what.clone(), seen(&version))).collect();
    watches.saw(&due.what, shown);
    waiters.into_iter().for_each(join);
}

/// Entries become lockable and leave at once.
pub fn lockable_entries_are_kept() {
    let lockable = Arc::new(Lockable::default());
    let [one, other, left] = [(); 3].map(|()| Ticket::random());
    lockable.add(left);
    let threads = [one, other].map(|ticket| {
        let lockable = Arc::clone(&lockable);
        thread::spawn(move || lockable.add(ticket))
    });
    lockable.remove(left);
    threads.into_iter().for_each(join);
    let known = [one, other, left].map(|ticket| lockable.contains(&ticket.to_string()));
    assert_eq!(known, [true, true, false]);
}
