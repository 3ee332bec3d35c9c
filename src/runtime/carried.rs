//! Futures that the caller drives at first, and that the library takes over if they take longer.
//!
//! A request occupies shared resources: a connection, a slot among the requests in flight, a
//! permit. Polling it in the caller's task is fastest. But a caller may leave its future unpolled
//! forever, for example in a `select!` loop that is busy elsewhere or on a blocked thread. The
//! library therefore takes over a future that is not complete within a short time (`TRUST`).

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use super::{
    executor::AbortHandle,
    mutex::Mutex,
    work::{Heavy, Runtime},
};

/// A future that its caller drives at first, and the library's runtime if it takes longer.
pub(crate) struct Carried<T: Send + 'static> {
    runtime: Runtime,
    load: Arc<Load<T>>,
    /// Once started, the future runs to completion even if it is dropped.
    whole: bool,
    begun: bool,
}

struct Load<T>(Mutex<State<T>>);

type Rest<T> = Pin<Box<dyn Future<Output = T> + Send>>;

enum State<T> {
    /// The caller drives the future and is woken by this waker.
    Here(Rest<T>, Option<Waker>),
    /// The caller is polling the future.
    InHand,
    /// The library drives the future.
    Away(Option<AbortHandle>, Option<Waker>),
    Done(T),
    Over,
}

impl<T: Send + 'static> Carried<T> {
    /// Creates a future that is cancelled when it is dropped.
    pub(crate) fn new(runtime: &Runtime, future: impl Future<Output = T> + Send + 'static) -> Self {
        let load = Arc::new(Load(Mutex::new(State::Here(Box::pin(future), None))));
        Self { runtime: runtime.clone(), load, whole: false, begun: false }
    }

    /// Creates a future that runs to completion once it has been polled.
    ///
    /// If it is dropped after that, the library's runtime completes it.
    pub(crate) fn whole(
        runtime: &Runtime,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        let mut carried = Self::new(runtime, future);
        carried.whole = true;
        carried
    }
}

impl<T: Send + 'static> Future for Carried<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut state = self.load.0.lock();
        let (mut rest, waker) = match std::mem::replace(&mut *state, State::InHand) {
            State::Here(rest, waker) => (rest, waker),
            State::Done(value) => {
                *state = State::Over;
                return Poll::Ready(value);
            }
            State::Away(task, _) => {
                *state = State::Away(task, Some(context.waker().clone()));
                return Poll::Pending;
            }
            // The caller polled the future after its completion, which is a bug in the caller.
            was @ (State::InHand | State::Over) => {
                *state = was;
                return Poll::Pending;
            }
        };
        drop(state);
        match rest.as_mut().poll(context) {
            Poll::Ready(value) => {
                *self.load.0.lock() = State::Over;
                Poll::Ready(value)
            }
            Poll::Pending => {
                let waker = match waker {
                    Some(waker) if waker.will_wake(context.waker()) => waker,
                    _ => context.waker().clone(),
                };
                *self.load.0.lock() = State::Here(rest, Some(waker));
                if !std::mem::replace(&mut self.begun, true) {
                    let load = Arc::downgrade(&self.load);
                    self.runtime.watch(load);
                }
                Poll::Pending
            }
        }
    }
}

impl<T: Send + 'static> Drop for Carried<T> {
    fn drop(&mut self) {
        if self.runtime.is_inherited() {
            std::mem::forget(Arc::clone(&self.load));
            return;
        }
        let was = std::mem::replace(&mut *self.load.0.lock(), State::Over);
        match was {
            State::Here(rest, _) if self.whole && self.begun => {
                self.runtime.spawn(async move { drop(rest.await) });
            }
            State::Away(Some(task), _) if !self.whole => task.abort(),
            _ => {}
        }
    }
}

impl<T: Send + 'static> Heavy for Load<T> {
    fn take_over(self: Arc<Self>, runtime: &Runtime) -> bool {
        let mut state = self.0.lock();
        match std::mem::replace(&mut *state, State::InHand) {
            State::Here(rest, waker) => {
                *state = State::Away(None, waker);
                let load = Arc::clone(&self);
                let task = runtime.spawn(async move { load.arrive(rest.await) });
                if let State::Away(handle, _) = &mut *state {
                    *handle = task;
                }
                true
            }
            State::InHand => false,
            was => {
                *state = was;
                true
            }
        }
    }
}

impl<T> Load<T> {
    fn arrive(&self, value: T) {
        let mut state = self.0.lock();
        let State::Away(_, waker) = &mut *state else { return };
        let waker = waker.take();
        *state = State::Done(value);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use tokio::{
        sync::{Semaphore, oneshot},
        time::timeout,
    };

    use super::{super::work::TRUST, *};

    fn poll_once<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn unpolled_futures_are_taken_over() {
        let (runtime, permits) = (&Runtime::own().unwrap(), Arc::new(Semaphore::new(1)));
        let (go, gone) = oneshot::channel::<()>();
        let held = Arc::clone(&permits);
        let mut carried = pin!(Carried::new(runtime, async move {
            let _permit = held.acquire().await.unwrap();
            gone.await.unwrap();
            7
        }));
        assert!(poll_once(carried.as_mut()).is_pending());
        go.send(()).unwrap();
        // The caller never polls again, and yet its permit is released.
        drop(
            timeout(Duration::from_secs(10), permits.acquire())
                .await
                .expect("it is given back")
                .unwrap(),
        );
        assert_eq!(carried.await, 7);
    }

    #[tokio::test]
    async fn caller_is_woken_after_takeover() {
        let runtime = &Runtime::own().unwrap();
        let (go, gone) = oneshot::channel();
        let carried = tokio::spawn(Carried::new(runtime, async move { gone.await.unwrap() }));
        tokio::time::sleep(TRUST * 3).await;
        go.send(5).unwrap();
        assert_eq!(timeout(Duration::from_secs(10), carried).await.expect("woken").unwrap(), 5);
    }

    #[tokio::test]
    async fn dropped_futures_are_cancelled_unless_detached() {
        let runtime = &Runtime::own().unwrap();
        for (whole, relieved, done) in
            [(false, false, 0), (false, true, 0), (true, false, 1), (true, true, 1)]
        {
            let count = Arc::new(AtomicUsize::new(0));
            let (go, gone) = oneshot::channel::<()>();
            let counted = Arc::clone(&count);
            let work = async move {
                let _ = gone.await;
                counted.fetch_add(1, Ordering::Relaxed);
            };
            let mut carried = Box::pin(if whole {
                Carried::whole(runtime, work)
            } else {
                Carried::new(runtime, work)
            });
            assert!(poll_once(carried.as_mut()).is_pending());
            if relieved {
                tokio::time::sleep(TRUST * 3).await;
            }
            drop(carried);
            let sent = go.send(());
            // The last reference is dropped with the future.
            while Arc::strong_count(&count) > 1 {
                tokio::task::yield_now().await;
            }
            assert_eq!(count.load(Ordering::Relaxed), done, "{whole} {relieved} {sent:?}");
        }
    }

    #[tokio::test]
    async fn never_polled_future_is_never_started() {
        let (runtime, begun) = (&Runtime::own().unwrap(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&begun);
        drop(Carried::whole(runtime, async move { counted.fetch_add(1, Ordering::Relaxed) }));
        assert_eq!((Arc::strong_count(&begun), begun.load(Ordering::Relaxed)), (1, 0));
    }
}
