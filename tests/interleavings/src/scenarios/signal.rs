//! Signals from a thread to a task.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use shuttle::sync::mpsc;

use crate::runtime::Mutex;

/// Counts the signals to a task.
#[derive(Clone, Default)]
pub(crate) struct Signal(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    asked: usize,
    waker: Option<Waker>,
}

impl Signal {
    /// Sends another signal, and wakes the task.
    pub(crate) fn ask(&self) {
        let waker = {
            let mut state = self.0.lock();
            state.asked += 1;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Is ready after the given number of signals.
    pub(crate) fn poll(&self, times: usize, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        if state.asked >= times {
            return Poll::Ready(());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }

    pub(crate) async fn asked(self, times: usize) {
        std::future::poll_fn(|context| self.poll(times, context)).await;
    }
}

/// Notifies the other end when it is dropped.
pub(crate) struct Held(mpsc::Sender<()>);

impl Held {
    pub(crate) fn new() -> (Self, mpsc::Receiver<()>) {
        let (tell, dropped) = mpsc::channel();
        (Self(tell), dropped)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.send(()).expect("the receiver exists");
    }
}
