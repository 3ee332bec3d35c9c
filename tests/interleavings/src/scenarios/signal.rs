//! How a thread tells a task something.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use shuttle::sync::mpsc;

use crate::runtime::Mutex;

/// Counts what was asked of a task.
#[derive(Clone, Default)]
pub(super) struct Signal(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    asked: usize,
    waker: Option<Waker>,
}

impl Signal {
    /// Asks once more, and wakes the task.
    pub(super) fn ask(&self) {
        let waker = {
            let mut state = self.0.lock();
            state.asked += 1;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Is ready once it was asked so often.
    pub(super) fn poll(&self, times: usize, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        if state.asked >= times {
            return Poll::Ready(());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }

    pub(super) async fn asked(self, times: usize) {
        std::future::poll_fn(|context| self.poll(times, context)).await;
    }
}

/// Tells the other end when it is dropped.
pub(super) struct Held(mpsc::Sender<()>);

impl Held {
    pub(super) fn new() -> (Self, mpsc::Receiver<()>) {
        let (tell, dropped) = mpsc::channel();
        (Self(tell), dropped)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.send(()).expect("somebody waits");
    }
}
