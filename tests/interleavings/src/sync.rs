//! The parts of tokio's `sync` that the library uses: tokio's own, with a possible thread switch
//! before calls to senders and to `Notify`. Polls need none: a future sees everything that happened
//! since it was created.

use std::time::Duration;

pub(crate) use tokio_itself::sync::{Mutex, Semaphore, futures::Notified};

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

    pub(crate) use tokio_itself::sync::watch::{Receiver, Ref, error};

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

        pub(crate) fn send_modify(&self, modify: impl FnOnce(&mut T)) {
            interrupt();
            self.0.send_modify(modify);
        }

        pub(crate) fn borrow(&self) -> Ref<'_, T> {
            interrupt();
            self.0.borrow()
        }

        pub(crate) fn receiver_count(&self) -> usize {
            interrupt();
            self.0.receiver_count()
        }

        pub(crate) async fn closed(&self) {
            self.0.closed().await;
        }
    }

    impl<T> Clone for Sender<T> {
        fn clone(&self) -> Self {
            Self(self.0.clone())
        }
    }
}

pub(crate) mod oneshot {
    use tokio_itself::sync::oneshot;

    pub(crate) use tokio_itself::sync::oneshot::{Receiver, error};

    use super::interrupt;

    #[derive(Debug)]
    pub(crate) struct Sender<T>(oneshot::Sender<T>);

    pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
        let (sender, receiver) = oneshot::channel();
        (Sender(sender), receiver)
    }

    impl<T> Sender<T> {
        pub(crate) fn send(self, value: T) -> Result<(), T> {
            interrupt();
            self.0.send(value)
        }

        pub(crate) fn is_closed(&self) -> bool {
            interrupt();
            self.0.is_closed()
        }
    }
}

pub(crate) mod mpsc {
    use tokio_itself::sync::mpsc;

    pub(crate) use tokio_itself::sync::mpsc::{UnboundedReceiver, error};

    use super::interrupt;

    #[derive(Debug)]
    pub(crate) struct UnboundedSender<T>(mpsc::UnboundedSender<T>);

    pub(crate) fn unbounded_channel<T>() -> (UnboundedSender<T>, UnboundedReceiver<T>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (UnboundedSender(sender), receiver)
    }

    impl<T> UnboundedSender<T> {
        pub(crate) fn send(&self, message: T) -> Result<(), error::SendError<T>> {
            interrupt();
            self.0.send(message)
        }
    }

    impl<T> Clone for UnboundedSender<T> {
        fn clone(&self) -> Self {
            Self(self.0.clone())
        }
    }
}
