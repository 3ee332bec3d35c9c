//! Tasks that go on at once, on the thread of the one who has woken them.
//!
//! A connection is a chain of tasks: what a caller asks for is passed on from one to the next, and
//! the last one writes it to the socket. Each of them was woken on the library's thread: the caller
//! had to wake that thread up for each request, which costs both more than the request itself.
//! What a caller wakes while it is polled is done by the caller now, before its poll ends, unless
//! another thread is in the midst of it and goes on. Nothing waits for a caller: a task is never
//! kept from one poll to the next, and what comes in from the socket, a timer or another thread
//! wakes it on the library's thread as ever.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::Future,
};

use async_task::{Builder, Runnable};

use super::executor::Executor;

/// So many steps a caller does for others in one poll; the library's thread does the rest. One
/// request takes three.
const STEPS: usize = 32;

thread_local! {
    /// A caller is polled on this thread.
    static WITHIN: Cell<bool> = const { Cell::new(false) };
    /// What it has woken. Empty outside of a poll; what room it has is used again.
    static WOKEN: RefCell<VecDeque<Runnable>> = const { RefCell::new(VecDeque::new()) };
}

/// Keeps a task that was woken within a poll for the end of it; gives back any other.
fn keep(task: Runnable) -> Option<Runnable> {
    let mut task = Some(task);
    if WITHIN.get() {
        // On a thread that ends there is nothing any more to keep it in.
        let _ = WOKEN.try_with(|woken| woken.borrow_mut().extend(task.take()));
    }
    task
}

fn next() -> Option<Runnable> {
    WOKEN.try_with(|woken| woken.borrow_mut().pop_front()).ok().flatten()
}

/// A task of which the one who wakes it does what there is to do, if it is within [`poll`], and
/// the executor if not.
pub(crate) fn spawn(executor: &Executor, task: impl Future<Output = ()> + Send + 'static) {
    let executor = executor.clone();
    let schedule = move |task| {
        if let Some(task) = keep(task) {
            executor.spawn(async move {
                task.run();
            });
        }
    };
    // Its panic is nobody's who only happens to be polled.
    let (runnable, task) = Builder::new().propagate_panic(true).spawn(|()| task, schedule);
    task.detach();
    runnable.schedule();
}

/// One poll of a caller, and what it has woken.
pub(super) fn poll<T>(poll: impl FnOnce() -> T) -> T {
    let _within = Within::begin();
    let polled = poll();
    for _ in 0..STEPS {
        let Some(task) = next() else { break };
        task.run();
    }
    polled
}

/// That the thread is within a poll: one of its own, or one in another one. What is polled there
/// may block, as the program's own code may do in a request for a password: so its end waits for
/// no other one.
struct Within {
    /// There is one around it.
    inner: bool,
}

impl Within {
    fn begin() -> Self {
        Self { inner: WITHIN.replace(true) }
    }
}

impl Drop for Within {
    /// Also if the poll panics.
    fn drop(&mut self) {
        WITHIN.set(false);
        while let Some(task) = next() {
            task.schedule();
        }
        WITHIN.set(self.inner);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        task::{Poll, Waker},
        thread::{self, ThreadId},
        time::Duration,
    };

    use super::*;
    use crate::runtime::mutex::Mutex;

    /// A task that tells on which thread it was woken, each time it is.
    fn listening(executor: &Executor) -> (Waker, mpsc::Receiver<ThreadId>) {
        let (tell, told) = mpsc::channel();
        let slot = Arc::new(Mutex::new(None));
        let to = Arc::clone(&slot);
        let task = poll_fn(move |context| {
            *to.lock() = Some(context.waker().clone());
            let _ = tell.send(thread::current().id());
            Poll::Pending
        });
        // Its first step is over by then: what is woken in the midst of one goes on where it is.
        poll(|| spawn(executor, task));
        told_by(&told);
        let waker = slot.lock().take().expect("polled");
        (waker, told)
    }

    fn told_by(told: &mpsc::Receiver<ThreadId>) -> ThreadId {
        told.recv_timeout(Duration::from_secs(20)).expect("it is woken")
    }

    #[test]
    fn who_wakes_a_task_within_a_poll_does_its_work() {
        let (executor, here) = (&Executor::own(0).unwrap(), thread::current().id());
        let (waker, told) = listening(executor);
        poll(|| waker.wake_by_ref());
        assert_eq!(told.try_recv(), Ok(here), "before the poll's end");
        waker.wake_by_ref();
        assert_ne!(told_by(&told), here, "outside of a poll");
        let elsewhere = waker.clone();
        poll(|| {
            thread::spawn(move || elsewhere.wake()).join().unwrap();
            assert_ne!(told_by(&told), here, "not what another thread has woken");
        });
    }

    #[test]
    fn a_poll_in_a_poll_waits_for_no_other() {
        let (waker, told) = listening(&Executor::own(0).unwrap());
        poll(|| {
            // What was woken before it is what it waits for, perhaps.
            waker.wake_by_ref();
            poll(|| ());
            assert_eq!(told.try_recv(), Ok(thread::current().id()));
            waker.wake_by_ref();
            assert!(told.try_recv().is_err(), "the outer one goes on as before");
        });
        assert_eq!(told.try_recv(), Ok(thread::current().id()));
    }

    #[test]
    fn a_poll_ends_whatever_it_has_woken() {
        let (executor, here) = (&Executor::own(0).unwrap(), thread::current().id());
        let count = Arc::new(AtomicUsize::new(0));
        let (counted, (tell, told)) = (Arc::clone(&count), mpsc::channel());
        poll(|| {
            // Wakes itself again and again.
            spawn(
                executor,
                poll_fn(move |context| {
                    if thread::current().id() != here {
                        let _ = tell.send(thread::current().id());
                        return Poll::Ready(());
                    }
                    counted.fetch_add(1, Ordering::Relaxed);
                    context.waker().wake_by_ref();
                    Poll::Pending
                }),
            );
        });
        assert_eq!(count.load(Ordering::Relaxed), STEPS);
        told_by(&told);
    }

    #[test]
    fn a_panic_harms_nobody_else() {
        let (executor, here) = (&Executor::own(0).unwrap(), thread::current().id());
        let (waker, told) = listening(executor);
        let panicking = std::panic::catch_unwind(|| {
            poll(|| {
                waker.wake_by_ref();
                panic!("a caller's");
            })
        });
        assert!(panicking.is_err());
        assert_ne!(told_by(&told), here, "it is the executor's again");
        poll(|| spawn(executor, async { panic!("a task's") }));
        let (waker, told) = listening(executor);
        poll(|| waker.wake_by_ref());
        assert_eq!(told.try_recv(), Ok(here));
    }
}
