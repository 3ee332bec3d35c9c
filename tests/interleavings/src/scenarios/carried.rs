//! Futures that a caller polls, or the runtime if the caller does not.

use std::task::{Context, Waker};

use shuttle::{future::block_on, sync::mpsc, thread};

use super::{
    runtime,
    signal::{Held, Signal},
};
use crate::runtime::Carried;

/// The runtime takes the work over at any time, and the caller receives its result.
pub fn caller_receives_result_after_takeover() {
    let (runtime, signal) = (runtime(), Signal::default());
    let asked = signal.clone().asked(1);
    let carried = Carried::new(&runtime, async move {
        asked.await;
        7
    });
    let thread = thread::spawn(move || signal.ask());
    assert_eq!(block_on(carried), 7);
    thread.join().expect("the thread did not panic");
}

/// The caller disappears at any time: work that must complete is executed, once.
pub fn detached_work_completes_exactly_once() {
    let (runtime, signal) = (runtime(), Signal::default());
    let (done, ended) = mpsc::channel();
    let asked = signal.clone().asked(1);
    let mut carried = Box::pin(Carried::whole(&runtime, async move {
        asked.await;
        done.send(()).expect("the receiver exists");
    }));
    let polled = carried.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "no signal was sent yet");
    let thread = thread::spawn(move || signal.ask());
    drop(carried);
    thread.join().expect("the thread did not panic");
    ended.recv().expect("the work is done");
    ended.recv().expect_err("the work was done once");
}

/// The caller disappears at any time: its resources are dropped.
pub fn cancelled_work_is_dropped() {
    let (runtime, signal) = (runtime(), Signal::default());
    let ((held, dropped), asked) = (Held::new(), signal.clone().asked(1));
    let mut carried = Box::pin(Carried::new(&runtime, async move {
        asked.await;
        drop(held);
    }));
    let polled = carried.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "no signal was sent");
    let thread = thread::spawn(move || drop(carried));
    dropped.recv().expect("the value was dropped");
    thread.join().expect("the thread did not panic");
    drop(signal);
}

/// The runtime takes over every future whose caller does not poll it.
pub fn stalled_work_is_taken_over() {
    let runtime = runtime();
    let (done, ended) = mpsc::channel();
    let signals = [(); 2].map(|()| Signal::default());
    let threads = signals.clone().map(|signal| {
        let (runtime, done, asked) = (runtime.clone(), done.clone(), signal.asked(1));
        thread::spawn(move || {
            let mut carried = Box::pin(Carried::new(&runtime, async move {
                asked.await;
                done.send(()).expect("the receiver exists");
            }));
            let polled = carried.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            // A signal may have been sent before the poll.
            polled.is_pending().then_some(carried)
        })
    });
    signals.iter().for_each(Signal::ask);
    let _stalled = threads.map(|thread| thread.join().expect("the thread did not panic"));
    for _ in 0..2 {
        ended.recv().expect("the work is done");
    }
}
