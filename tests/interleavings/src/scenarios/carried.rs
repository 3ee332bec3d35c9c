//! Futures that a caller drives, and the runtime if the caller does not.

use std::task::{Context, Waker};

use shuttle::{future::block_on, sync::mpsc, thread};

use super::signal::{Held, Signal};
use crate::runtime::{Carried, Runtime};

/// The runtime takes it over at any time, and its caller learns what came of it.
pub fn a_caller_learns_what_came_of_it() {
    let (runtime, signal) = (Runtime::default(), Signal::default());
    let asked = signal.clone().asked(1);
    let carried = Carried::new(&runtime, async move {
        asked.await;
        7
    });
    let thread = thread::spawn(move || signal.ask());
    assert_eq!(block_on(carried), 7);
    thread.join().expect("no panic");
}

/// A caller that goes away at any time: what is whole is done, once.
pub fn what_is_whole_is_done_once() {
    let (runtime, signal) = (Runtime::default(), Signal::default());
    let (done, ended) = mpsc::channel();
    let asked = signal.clone().asked(1);
    let mut carried = Box::pin(Carried::whole(&runtime, async move {
        asked.await;
        done.send(()).expect("somebody waits");
    }));
    let polled = carried.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "nobody has asked yet");
    let thread = thread::spawn(move || signal.ask());
    drop(carried);
    thread.join().expect("no panic");
    ended.recv().expect("it is done");
    ended.recv().expect_err("it was done twice");
}

/// A caller that goes away at any time: what it has is dropped.
pub fn what_is_given_up_is_dropped() {
    let (runtime, signal) = (Runtime::default(), Signal::default());
    let ((held, dropped), asked) = (Held::new(), signal.clone().asked(1));
    let mut carried = Box::pin(Carried::new(&runtime, async move {
        asked.await;
        drop(held);
    }));
    let polled = carried.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "nobody has asked");
    let thread = thread::spawn(move || drop(carried));
    dropped.recv().expect("it was there");
    thread.join().expect("no panic");
    drop(signal);
}
