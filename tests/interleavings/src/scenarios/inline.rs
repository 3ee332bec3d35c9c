//! Tasks that run on the thread that wakes them.

use shuttle::{sync::mpsc, thread};

use super::signal::{Held, Signal};
use crate::runtime::{Executor, Inline, poll};

/// Two threads wake a task at once, one of them within a poll. `crowd`: the number of other
/// callers.
fn two_wake(crowd: usize) {
    let inline = Inline::new(Executor::default());
    let _crowd: Vec<_> = (0..crowd).map(|_| inline.clone()).collect();
    let signal = Signal::default();
    let (done, ended) = mpsc::channel();
    let asked = signal.clone().asked(2);
    inline.spawn(async move {
        asked.await;
        done.send(()).expect("the receiver exists");
    });
    let within = signal.clone();
    let threads =
        [thread::spawn(move || poll(|| within.ask())), thread::spawn(move || signal.ask())];
    ended.recv().expect("the task saw both signals");
    for thread in threads {
        thread.join().expect("the thread did not panic");
    }
}

/// The task sees every signal, on the signalling thread or on another one.
pub fn no_wake_is_lost() {
    two_wake(0);
}

/// No wake-up is lost while callers leave the work to the executor.
pub fn no_wake_is_lost_under_load() {
    two_wake(100);
}

/// A task wakes another one, which completes on the same thread or on another one.
pub fn chained_tasks_complete() {
    let inline = Inline::new(Executor::default());
    let (first, second) = (Signal::default(), Signal::default());
    let (done, ended) = mpsc::channel();
    let (asked, next) = (first.clone().asked(2), second.clone());
    inline.spawn(async move {
        asked.await;
        next.ask();
    });
    inline.spawn(async move {
        second.asked(1).await;
        done.send(()).expect("the receiver exists");
    });
    let other = first.clone();
    let thread = thread::spawn(move || poll(|| other.ask()));
    poll(|| first.ask());
    ended.recv().expect("both ran");
    thread.join().expect("the thread did not panic");
}

/// When an executor ends, its tasks are dropped with their resources.
pub fn ended_executor_drops_its_tasks() {
    let executor = Executor::default();
    let inline = Inline::new(executor.clone());
    let (signals, dropped): (Vec<_>, Vec<_>) = (0..2)
        .map(|_| {
            let (signal, (held, dropped)) = (Signal::default(), Held::new());
            let asked = signal.clone().asked(1);
            inline.spawn(async move {
                asked.await;
                drop(held);
            });
            (signal, dropped)
        })
        .unzip();
    drop(inline);
    let thread = thread::spawn(move || executor.end());
    for signal in signals {
        signal.ask();
    }
    thread.join().expect("the thread did not panic");
    for dropped in dropped {
        dropped.recv().expect("the value was dropped");
    }
}
