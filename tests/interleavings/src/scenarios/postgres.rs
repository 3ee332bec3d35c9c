//! What a session's callers and its connection to PostgreSQL share.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;

use shuttle::{future::block_on, thread};

use super::{
    in_rows::InRows,
    leaving::Leaving,
    listening::Listening,
    log::Log,
    quiet_queues::QuietQueues,
    turns::{Rank, Turns},
};
use crate::{backend::Ticket, scenarios::join, sync::interrupt};

const DIR: &str = "/ns/a";

/// One request has the turn at a time, and every request gets one.
pub fn one_request_has_the_turn() {
    let (turns, under_way) = (Turns::default(), Arc::new(AtomicUsize::new(0)));
    let request = |rank| {
        let (turns, under_way) = (turns.clone(), Arc::clone(&under_way));
        move || {
            let turn = block_on(turns.take(rank));
            assert_eq!(under_way.fetch_add(1, SeqCst), 0, "two requests at a time");
            interrupt();
            under_way.fetch_sub(1, SeqCst);
            drop(turn);
        }
    };
    let threads = [Rank::Renewal, Rank::Call].map(|rank| thread::spawn(request(rank)));
    request(Rank::Background)();
    threads.into_iter().for_each(join);
}

/// A leave waits until the reply to its join was read. Then the entry that it deletes is forgotten.
pub fn leave_waits_for_its_join() {
    let (rows, read) = (Arc::new(InRows::default()), Arc::new(AtomicBool::new(false)));
    let [ticket, other] = [(); 2].map(|()| Ticket::random());
    [ticket, other].into_iter().for_each(|ticket| rows.begin(ticket));
    let (replies, replied) = (Arc::clone(&rows), Arc::clone(&read));
    let reply = thread::spawn(move || {
        replied.store(true, SeqCst);
        replies.joined(DIR, ticket, true);
    });
    let others = Arc::clone(&rows);
    let doubt = thread::spawn(move || others.joined(DIR, other, false));
    block_on(rows.settled(ticket));
    assert!(read.load(SeqCst), "the join is under way");
    rows.left(DIR, ticket, true);
    join(reply);
    join(doubt);
    assert_eq!(rows.dirs(), Some(Vec::new()), "the entry was deleted");
}

/// A join waits for all releases from its queues.
pub fn join_waits_for_releases() {
    let (leaving, pending) = (Arc::new(Leaving::default()), Arc::new(AtomicUsize::new(2)));
    let releases = [(); 2].map(|()| {
        let (release, pending) = (leaving.begin(DIR), Arc::clone(&pending));
        thread::spawn(move || {
            pending.fetch_sub(1, SeqCst);
            drop(release);
        })
    });
    block_on(leaving.none_in(&[DIR]));
    assert_eq!(pending.load(SeqCst), 0, "a release is pending");
    releases.into_iter().for_each(join);
}

/// A reply that arrives after listening was ended does not count.
pub fn late_reply_does_not_begin_to_listen() {
    let (listening, ended) = (Arc::new(Listening::default()), Arc::new(AtomicBool::new(false)));
    let begins = [(); 2].map(|()| listening.begin().expect("it does not listen"));
    let (ends, after) = (Arc::clone(&listening), Arc::clone(&ended));
    let end = thread::spawn(move || {
        ends.end();
        after.store(true, SeqCst);
    });
    let replies = begins.map(|begun| {
        let listening = Arc::clone(&listening);
        thread::spawn(move || listening.begun(begun))
    });
    let is_ended = ended.load(SeqCst);
    assert!(!(listening.is_on() && is_ended), "the connection does not listen");
    join(end);
    replies.into_iter().for_each(join);
    assert!(!listening.is_on());
}

/// The highest position of a server's log counts, whichever connection reads it.
pub fn highest_log_position_counts() {
    let log = Arc::new(Log::default());
    log.begin("a", 1);
    let threads = [2, 3].map(|position| {
        let log = Arc::clone(&log);
        thread::spawn(move || log.saw("a", position))
    });
    log.saw("a", 2);
    threads.into_iter().for_each(join);
    assert_eq!(log.so_far().shown_by("a"), 3);
}

/// A queue that was found busy is not quiet, unless it was empty after that.
pub fn busy_queue_is_not_quiet() {
    let quiet = Arc::new(QuietQueues::default());
    quiet.joined(DIR);
    let threads = [(); 2].map(|()| {
        let quiet = Arc::clone(&quiet);
        thread::spawn(move || quiet.forget(DIR))
    });
    quiet.joined("/ns/b");
    threads.into_iter().for_each(join);
    assert!(!quiet.has_row(DIR) && quiet.has_row("/ns/b"));
}
