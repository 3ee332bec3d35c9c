//! What the SQL stores and Redis share between callers, connections and sessions.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::{
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use shuttle::{future::block_on, sync::mpsc, thread};

use super::{join, signal::Signal};
use crate::{
    backend::{
        Result, StoreError, Ticket,
        sql::{
            connection_handle::{ConnectionHandle, Inbox, Order, Over, Served},
            endpoints::Endpoints,
            lending::{Lingers, lend},
            noted_queues::NotedQueues,
            outcome::{Outcome, Row},
            released::Released,
            server_clock::ServerClock,
            watched::What,
            watches::Watches,
        },
    },
    runtime::{OnDrop, clock, yield_now},
    sync::interrupt,
};

const DIR: &str = "/ns/a";
const SECOND: Duration = Duration::from_secs(1);

fn entry() -> What {
    (DIR.into(), 1)
}

/// A waiter that checks after it has registered misses no change of its entry.
pub fn no_notification_is_missed() {
    let (watches, changes) = (Arc::new(Watches::default()), Arc::new(AtomicUsize::new(0)));
    let waiters = [(); 2].map(|()| {
        let (watches, changes) = (Arc::clone(&watches), Arc::clone(&changes));
        thread::spawn(move || {
            loop {
                let mut waiting = watches.wait(entry());
                interrupt();
                let is_last = changes.load(SeqCst) == 2;
                if !is_last {
                    block_on(waiting.changed()).expect("the connection is not lost");
                }
                watches.leave(&waiting, || {});
                if is_last {
                    return;
                }
            }
        })
    });
    for _ in 0..2 {
        changes.fetch_add(1, SeqCst);
        watches.notify(DIR, 1);
    }
    waiters.into_iter().for_each(join);
    assert!(!watches.is_awaited());
}

/// The server watches an entry for as long as it has a waiter.
pub fn watch_ends_before_the_next_one_begins() {
    let (watches, on_server) = (Arc::new(Watches::default()), Arc::new(AtomicBool::new(true)));
    let first = watches.wait(entry());
    let (leaves, ends) = (Arc::clone(&watches), Arc::clone(&on_server));
    let unwatch = move || {
        interrupt();
        ends.store(false, SeqCst);
    };
    let leave = thread::spawn(move || leaves.leave(&first, unwatch));
    let waits = [(); 2].map(|()| {
        let (watches, on_server) = (Arc::clone(&watches), Arc::clone(&on_server));
        thread::spawn(move || {
            let waiting = watches.wait(entry());
            on_server.store(true, SeqCst);
            waiting
        })
    });
    join(leave);
    let _waiting = waits.map(join);
    assert!(on_server.load(SeqCst), "a waiter has no watch on the server");
}

/// The session's task learns when the next session ahead of a waiter may expire.
pub fn next_expiry_is_noted() {
    let watches = Arc::new(Watches::default());
    let notes = [1, 2].map(|session| {
        let watches = Arc::clone(&watches);
        thread::spawn(move || {
            let waiting = watches.wait((DIR.into(), session));
            watches.note(&(DIR.into(), session), [(1, SECOND)]);
            waiting
        })
    });
    block_on(async {
        while watches.due().is_none() {
            watches.changed.notified().await;
        }
    });
    let _waiting = notes.map(join);
}

/// All recent releases are remembered, whichever thread made them.
pub fn releases_are_remembered() {
    let released = Arc::new(Released::default());
    let tickets = [(); 3].map(|()| Ticket::random());
    let threads = tickets.map(|ticket| {
        let released = Arc::clone(&released);
        thread::spawn(move || released.add(DIR, ticket))
    });
    threads.into_iter().for_each(join);
    let known: Vec<_> = released.all().into_iter().map(|(_, ticket)| ticket).collect();
    assert!(tickets.iter().all(|ticket| known.contains(ticket)));
}

/// Several calls note the state of their queues at once.
pub fn notes_of_other_queues_are_kept() {
    let noted = Arc::new(NotedQueues::default());
    noted.note("/ns/c", true);
    let threads = ["/ns/a", "/ns/b"].map(|dir| {
        let noted = Arc::clone(&noted);
        thread::spawn(move || noted.note(dir, true))
    });
    noted.note("/ns/c", false);
    threads.into_iter().for_each(join);
    assert!(noted.contains("/ns/a") && noted.contains("/ns/b") && !noted.contains("/ns/c"));
}

/// A reply that shows the server's clock and beat.
pub(crate) fn reading(shows: u64, beat: u64) -> [Outcome; 1] {
    let row = Row::new([shows * 1_000_000, beat].map(|number| Some(number.to_string())).into());
    [Outcome::new(vec![row], 1)]
}

/// What a request concludes from the server's clock comes from one clock: from before it was set,
/// or from after that.
pub fn conclusions_come_from_one_clock() {
    let clock = Arc::new(ServerClock::default());
    for second in 1..=3 {
        clock::pass(SECOND);
        clock.read(&reading(1_000 + second, second), clock::now());
    }
    let now = clock::now();
    let before = clock.clock_trust(now).expect("it was read");
    let (reads, forgets) = (Arc::clone(&clock), Arc::clone(&clock));
    let read = thread::spawn(move || reads.read(&reading(9_000, 4), now));
    let forget = thread::spawn(move || forgets.forget());
    let concluded = clock.clock_trust(now);
    join(read);
    join(forget);
    let is_new = |since| since == 9_000_000_000;
    if let Some(trust) = concluded {
        let expected = if is_new(trust.since) { 1 } else { before.marks.len() };
        assert_eq!(trust.marks.len(), expected, "the readings of another clock: {trust:?}");
    }
}

/// A connection that is lost after one reply, and its successor, which lasts.
struct Connection;

impl Served for Connection {
    type Message = u64;
    type Link = usize;

    async fn connect(&self) -> Result<usize> {
        yield_now().await;
        Ok(usize::MAX)
    }

    async fn serve(&mut self, most: usize, inbox: &mut Inbox<u64>) -> Over {
        let mut left = most;
        loop {
            inbox.collect();
            while let Some(order) = inbox.waiting.pop_front() {
                if let Order::Ask(request) = order
                    && request.begin()
                {
                    let count = request.message;
                    request.answer(Ok(vec![Outcome::new(Vec::new(), count)]));
                }
                left -= 1;
                if left == 0 {
                    return Over::Lost;
                }
            }
            match inbox.next().await {
                Some(order) => inbox.waiting.push_back(order),
                None => return Over::Closed,
            }
        }
    }

    fn lost(&self, _: bool) {}
}

/// Each caller receives the reply to its own request, although the connection is lost.
pub fn requests_survive_a_reconnect() {
    let _stopped = clock::stop();
    let handle = ConnectionHandle::start(Connection, 1, SECOND);
    let threads = [7, 8].map(|number| {
        let handle = handle.clone();
        thread::spawn(move || {
            let outcomes = block_on(handle.ask("asking", number)).expect("it was sent");
            assert_eq!(outcomes.first().map(|outcome| outcome.count), Some(number));
        })
    });
    drop(handle);
    threads.into_iter().for_each(join);
}

/// Each report that a server does not reply makes the next attempt begin with another one.
pub fn each_report_moves_on_to_another_server() {
    let _stopped = clock::stop();
    let names = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
    let endpoints = Arc::new(Endpoints::new(names));
    let threads = [(); 3].map(|()| {
        let endpoints = Arc::clone(&endpoints);
        thread::spawn(move || endpoints.leave())
    });
    endpoints.leave();
    threads.into_iter().for_each(join);
    let connect = |endpoint| async move { Ok(endpoint) };
    let connected = block_on(endpoints.connect(SECOND, connect)).expect("all are there");
    assert_eq!(connected, "e");
}

/// Of the tasks that acquire a connection which no request waits for, one goes on.
pub fn one_task_lingers() {
    let _stopped = clock::stop();
    let (lingers, signals) = (Lingers::default(), [(); 2].map(|()| Signal::default()));
    let ((count, counted), (drops, dropped)) = (mpsc::channel(), mpsc::channel());
    let threads = signals.clone().map(|signal| {
        let (lingers, asked) = (lingers.clone(), signal.asked(1));
        let (count, drops) = (count.clone(), drops.clone());
        let ends = OnDrop(move || drops.send(()).expect("the receiver exists"));
        thread::spawn(move || {
            let acquiring = async move {
                let _ends = ends;
                asked.await;
                count.send(()).expect("the receiver exists");
                Ok::<_, StoreError>(())
            };
            let refused = |_: &StoreError| StoreError::Unavailable("refused".into());
            let mut lent = Box::pin(lend(&lingers, SECOND, acquiring, refused, drop));
            let polled = lent.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending(), "the pool has no connection");
        })
    });
    drop((count, drops));
    threads.into_iter().for_each(join);
    dropped.recv().expect("one of the tasks is ended");
    signals.iter().for_each(Signal::ask);
    assert_eq!(counted.iter().count(), 1);
}
