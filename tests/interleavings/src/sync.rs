//! The parts of tokio's `sync` that the library uses: tokio's own, with a possible thread switch
//! before each call. Polls need none: a future sees everything that happened since it was created.

use std::time::Duration;

pub(crate) use tokio_itself::sync::{Semaphore, futures::Notified};

/// Lets another thread run.
pub(crate) fn interrupt() {
    shuttle::thread::sleep(Duration::ZERO);
}

#[derive(Debug, Default)]
pub(crate) struct Notify(tokio_itself::sync::Notify);

impl Notify {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn notified(&self) -> Notified<'_> {
        interrupt();
        self.0.notified()
    }

    pub(crate) fn notify_one(&self) {
        interrupt();
        self.0.notify_one();
    }

    pub(crate) fn notify_waiters(&self) {
        interrupt();
        self.0.notify_waiters();
    }
}

pub(crate) mod watch {
    use tokio_itself::sync::watch;

    pub(crate) use tokio_itself::sync::watch::Receiver;

    use super::interrupt;

    #[derive(Debug, Default)]
    pub(crate) struct Sender<T>(watch::Sender<T>);

    pub(crate) fn channel<T>(first: T) -> (Sender<T>, Receiver<T>) {
        let (sender, receiver) = watch::channel(first);
        (Sender(sender), receiver)
    }

    impl<T> Sender<T> {
        pub(crate) fn new(first: T) -> Self {
            Self(watch::Sender::new(first))
        }

        pub(crate) fn subscribe(&self) -> Receiver<T> {
            interrupt();
            self.0.subscribe()
        }

        pub(crate) fn send_replace(&self, value: T) -> T {
            interrupt();
            self.0.send_replace(value)
        }
    }
}
