//! Tasks that run at once, on the thread that has woken them.
//!
//! A connection is a chain of tasks: each passes a request to the next, and the last one writes it
//! to the socket. Without this module, they would all run on the library's thread. The caller would
//! have to wake that thread for every request, which costs both threads more than the request
//! itself.
//!
//! Here, the caller runs the tasks that it wakes before its poll returns. The exception is a task
//! that another thread is running, which continues there. No task waits for a caller: none is kept
//! from one poll to the next. An event from the socket, a timer or another thread wakes the task on
//! the library's thread as usual.
//!
//! With many requests in flight, callers leave all tasks to the library's thread. Before it runs
//! them, more requests arrive, and all of them are sent in one packet.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::Future,
    mem,
    sync::Arc,
};

use async_task::{Builder, Runnable};

use super::{OnDrop, executor::Executor, mutex::Mutex, process::Process, thread_local, yield_now};

/// The number of task steps that a caller runs in one poll. The library's thread runs the rest. One
/// request takes three steps.
const STEPS: usize = 32;

/// The number of tasks and requests in a crowded connection.
///
/// If there are more, callers leave all tasks to the library's thread. An etcd connection has four
/// tasks, and two for each request in flight. Measured were 4 to 9 with one caller, 18 to 20 with
/// 8, 24 with 10 and 130 with 64. Leaving tasks to the executor makes no difference with 8 callers.
/// It saves a tenth of the client's processor time with 16, and more with 64.
const CROWD: usize = 24;

type Task = Runnable<Inline>;

thread_local! {
    /// Set while a caller is polled on this thread.
    static WITHIN: Cell<bool> = const { Cell::new(false) };
    /// The tasks that the caller has woken. Empty outside a poll; its allocation is reused.
    static WOKEN: RefCell<VecDeque<Task>> = const { RefCell::new(VecDeque::new()) };
}

/// Keeps a task that was woken within a poll until its end; returns other tasks.
fn keep(task: Task) -> Option<Task> {
    let mut task = Some(task);
    if WITHIN.with(Cell::get) {
        // A thread that is ending no longer has this thread-local storage.
        let _ = WOKEN.try_with(|woken| woken.borrow_mut().extend(task.take()));
    }
    task
}

fn next_kept() -> Option<Task> {
    loop {
        let next = WOKEN.try_with(|woken| woken.borrow_mut().pop_front()).ok().flatten()?;
        if let Some(task) = unless_inherited(next) {
            return Some(task);
        }
    }
}

/// Returns the task, unless it belongs to the parent of this forked process.
///
/// A task of the parent is leaked: running or dropping it could write to the parent's connection.
fn unless_inherited(task: Task) -> Option<Task> {
    if task.metadata().0.process.is_current() {
        return Some(task);
    }
    mem::forget(task);
    None
}

/// Runs the tasks of one connection. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Inline(Arc<Connection>);

struct Connection {
    executor: Executor,
    turns: Mutex<Turns>,
    process: Process,
    /// Where one task serves all requests, each request in flight holds a clone.
    requests: Arc<()>,
}

/// The tasks left to the executor, which runs all of them in one task of its own. With one task for
/// each, 64 callers acquired 0.84 times as many locks.
#[derive(Default)]
struct Turns {
    /// The woken tasks, in order.
    woken: VecDeque<Task>,
    /// The executor is running them, or will be.
    taken: bool,
}

impl Inline {
    pub(crate) fn new(executor: Executor) -> Self {
        let (turns, process, requests) = (Mutex::default(), Process::current(), Arc::default());
        Self(Arc::new(Connection { executor, turns, process, requests }))
    }

    /// Returns a reference that each request upgrades and keeps until its reply.
    #[allow(dead_code)] // Used only by some stores.
    pub(crate) fn requests(&self) -> std::sync::Weak<()> {
        Arc::downgrade(&self.0.requests)
    }

    /// Spawns a task that runs on the thread that wakes it.
    ///
    /// That requires a wake-up within [`poll`]. Otherwise the task runs on the executor.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let schedule = |task| {
            if let Some(task) = keep(task) {
                leave(task);
            }
        };
        // A panic of the task must not reach the caller that happens to be polled.
        let builder = Builder::new().propagate_panic(true).metadata(self.clone());
        let (runnable, task) = builder.spawn(|_| task, schedule);
        task.detach();
        runnable.schedule();
    }

    /// Returns `true` if the connection has more tasks and requests than [`CROWD`].
    ///
    /// Each task holds a clone of the connection.
    fn is_crowded(&self) -> bool {
        Arc::strong_count(&self.0) + Arc::strong_count(&self.0.requests) > CROWD + 1
    }

    /// Runs the woken tasks. Returns `false` if there are more.
    fn work(&self) -> bool {
        for _ in 0..STEPS {
            let next = {
                let mut turns = self.0.turns.lock();
                let next = turns.woken.pop_front();
                turns.taken = next.is_some();
                next
            };
            match next {
                Some(task) => task.run(),
                None => return true,
            };
        }
        false
    }
}

/// Leaves a task to the executor.
fn leave(task: Task) {
    let Some(task) = unless_inherited(task) else { return };
    let inline = task.metadata().clone();
    let taken = {
        let mut turns = inline.0.turns.lock();
        turns.woken.push_back(task);
        mem::replace(&mut turns.taken, true)
    };
    if !taken {
        let executor = inline.0.executor.clone();
        executor.spawn(Work { inline, over: false }.be_done());
    }
}

/// One run of the woken tasks on the executor. If the executor has ended, these tasks are dropped
/// like its own.
struct Work {
    inline: Inline,
    over: bool,
}

impl Work {
    async fn be_done(mut self) {
        while !self.over {
            self.over = self.inline.work();
            if !self.over {
                yield_now().await;
            }
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if !self.over {
            // Dropping a task may wake another one.
            let unrun = mem::take(&mut *self.inline.0.turns.lock());
            drop(unrun);
        }
    }
}

/// Polls a caller once, and then runs the tasks that it has woken.
pub(super) fn poll<T>(poll: impl FnOnce() -> T) -> T {
    let _within = within();
    let polled = poll();
    for _ in 0..STEPS {
        match next_kept() {
            Some(task) if task.metadata().is_crowded() => leave(task),
            Some(task) => drop(task.run()),
            None => break,
        }
    }
    polled
}

/// Marks the thread as within a poll, which may be nested in another poll.
///
/// A nested poll may block the outer one, for example in the program's callback for a password. The
/// end of a nested poll therefore also runs the tasks that the outer poll has woken.
fn within() -> OnDrop<impl Fn()> {
    let outer = WITHIN.with(|within| within.replace(true));
    // Also runs if the poll panics.
    OnDrop(move || {
        WITHIN.with(|within| within.set(false));
        while let Some(task) = next_kept() {
            leave(task);
        }
        WITHIN.with(|within| within.set(outer));
    })
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

    use tokio::sync::{broadcast, oneshot};

    use super::*;
    use crate::runtime::mutex::Mutex;

    /// Returns the waker of a task that reports the thread of each wake-up.
    fn listening(executor: &Executor) -> (Waker, mpsc::Receiver<ThreadId>) {
        let (sender, receiver) = mpsc::channel();
        let slot = Arc::new(Mutex::new(None));
        let to = Arc::clone(&slot);
        let task = poll_fn(move |context| {
            *to.lock() = Some(context.waker().clone());
            let _ = sender.send(thread::current().id());
            Poll::Pending
        });
        // The first step has ended by then: a wake-up during a step would continue on that thread.
        poll(|| Inline::new(executor.clone()).spawn(task));
        waking_thread(&receiver);
        let waker = slot.lock().take().expect("polled");
        (waker, receiver)
    }

    fn waking_thread(receiver: &mpsc::Receiver<ThreadId>) -> ThreadId {
        receiver.recv_timeout(Duration::from_secs(20)).expect("it is woken")
    }

    #[test]
    fn waker_within_a_poll_runs_the_task() {
        let (executor, here) = (&Executor::own().unwrap(), thread::current().id());
        let (waker, receiver) = listening(executor);
        poll(|| waker.wake_by_ref());
        assert_eq!(receiver.try_recv(), Ok(here), "before the poll's end");
        waker.wake_by_ref();
        assert_ne!(waking_thread(&receiver), here, "outside of a poll");
        let elsewhere = waker.clone();
        poll(|| {
            thread::spawn(move || elsewhere.wake()).join().unwrap();
            assert_ne!(waking_thread(&receiver), here, "not what another thread has woken");
        });
    }

    #[test]
    fn nested_poll_does_not_wait() {
        let (waker, receiver) = listening(&Executor::own().unwrap());
        poll(|| {
            // The nested poll may be waiting for a task that was woken before it.
            waker.wake_by_ref();
            poll(|| ());
            assert_eq!(receiver.try_recv(), Ok(thread::current().id()));
            waker.wake_by_ref();
            assert!(receiver.try_recv().is_err(), "the outer one goes on as before");
        });
        assert_eq!(receiver.try_recv(), Ok(thread::current().id()));
    }

    #[test]
    fn a_poll_ends_whatever_it_has_woken() {
        let (executor, here) = (&Executor::own().unwrap(), thread::current().id());
        let count = Arc::new(AtomicUsize::new(0));
        let (counted, (sender, receiver)) = (Arc::clone(&count), mpsc::channel());
        poll(|| {
            // The task wakes itself repeatedly.
            Inline::new(executor.clone()).spawn(poll_fn(move |context| {
                if thread::current().id() != here {
                    let _ = sender.send(thread::current().id());
                    return Poll::Ready(());
                }
                counted.fetch_add(1, Ordering::Relaxed);
                context.waker().wake_by_ref();
                Poll::Pending
            }));
        });
        assert_eq!(count.load(Ordering::Relaxed), STEPS);
        waking_thread(&receiver);
    }

    #[test]
    fn panic_in_a_poll_does_not_affect_other_tasks() {
        let (executor, here) = (&Executor::own().unwrap(), thread::current().id());
        let (waker, receiver) = listening(executor);
        let panicking = std::panic::catch_unwind(|| {
            poll(|| {
                waker.wake_by_ref();
                panic!("a caller's");
            })
        });
        assert!(panicking.is_err());
        assert_ne!(waking_thread(&receiver), here, "it is the executor's again");
        let inline = Inline::new(executor.clone());
        poll(|| inline.spawn(async { panic!("a task's") }));
        let (sender, receiver) = mpsc::channel();
        poll(|| inline.spawn(async move { sender.send(thread::current().id()).unwrap() }));
        assert_eq!(receiver.try_recv(), Ok(here));
    }

    #[test]
    fn executor_runs_tasks_woken_while_it_works() {
        let inline = Inline::new(Executor::own().unwrap());
        let (sender, receiver) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        let (begin, begun) = mpsc::channel();
        inline.spawn(async move {
            begin.send(()).unwrap();
            gone.recv_timeout(Duration::from_secs(20)).unwrap();
        });
        begun.recv().unwrap();
        inline.spawn(async move { sender.send(thread::current().id()).unwrap() });
        go.send(()).unwrap();
        assert_ne!(waking_thread(&receiver), thread::current().id());
    }

    #[test]
    fn executor_runs_tasks_under_load() {
        let (inline, here) = (Inline::new(Executor::own().unwrap()), thread::current().id());
        let by = || {
            let (sender, receiver) = mpsc::channel();
            poll(|| inline.spawn(async move { sender.send(thread::current().id()).unwrap() }));
            waking_thread(&receiver)
        };
        assert_eq!(by(), here);
        let (go, _) = broadcast::channel::<()>(1);
        for _ in 0..CROWD {
            let mut gone = go.subscribe();
            poll(|| inline.spawn(async move { drop(gone.recv().await) }));
        }
        assert_ne!(by(), here);
    }

    #[test]
    fn tasks_end_with_their_executor() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let inline = Inline::new(Executor::of(runtime.handle().clone()).unwrap());
        drop(runtime);
        let (sender, receiver) = mpsc::channel::<()>();
        let (go, gone) = oneshot::channel::<()>();
        let waits = sender.clone();
        poll(|| {
            inline.spawn(async move {
                let _ = gone.await;
                waits.send(()).unwrap();
            });
        });
        // Its end wakes the other task.
        inline.spawn(async move {
            go.send(()).unwrap();
            sender.send(()).unwrap();
        });
        assert_eq!(receiver.try_recv(), Err(mpsc::TryRecvError::Disconnected));
        // A caller within a poll still runs the tasks that it wakes.
        let (sender, receiver) = mpsc::channel();
        poll(|| inline.spawn(async move { sender.send(()).unwrap() }));
        assert_eq!(receiver.try_recv(), Ok(()));
    }
}
