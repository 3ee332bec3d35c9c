//! Tasks that go on at once, on the thread of the one who has woken them.
//!
//! A connection is a chain of tasks: what a caller asks for is passed on from one to the next, and
//! the last one writes it to the socket. Each of them was woken on the library's thread: the caller
//! had to wake that thread up for each request, which costs both more than the request itself.
//! What a caller wakes while it is polled is done by the caller now, before its poll ends, unless
//! another thread is in the midst of it and goes on. Nothing waits for a caller: a task is never
//! kept from one poll to the next, and what comes in from the socket, a timer or another thread
//! wakes it on the library's thread as ever.
//!
//! Where many requests are under way, callers leave all of it to the library's thread: until that
//! comes to it, others have asked too, and what they ask goes out in one packet.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::Future,
    mem,
    sync::Arc,
};

use async_task::{Builder, Runnable};

use super::{OnDrop, executor::Executor, mutex::Mutex, process::Process, thread_local, yield_now};

/// So many steps a caller does for others in one poll; the library's thread does the rest. One
/// request takes three.
const STEPS: usize = 32;

/// With more tasks and requests than these, callers only ask. A connection of etcd's has four, and
/// two for each request that waits for its answer: 4 to 9 with one caller, 18 to 20 with 8, 24 with
/// 10 and 130 with 64. What is left to the executor makes no difference with 8 callers, and saves a
/// tenth of the client's processor time with 16 and more with 64.
const CROWD: usize = 24;

type Task = Runnable<Inline>;

thread_local! {
    /// A caller is polled on this thread.
    static WITHIN: Cell<bool> = const { Cell::new(false) };
    /// What it has woken. Empty outside of a poll; what room it has is used again.
    static WOKEN: RefCell<VecDeque<Task>> = const { RefCell::new(VecDeque::new()) };
}

/// Keeps a task that was woken within a poll for the end of it; gives back any other.
fn keep(task: Task) -> Option<Task> {
    let mut task = Some(task);
    if WITHIN.with(Cell::get) {
        // On a thread that ends there is nothing any more to keep it in.
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

/// A task of the process that this one was forked from is left as it is: run or dropped, it might
/// write to its parent's connection.
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
    /// Each request has a clone of it, where one task takes all of them.
    requests: Arc<()>,
}

/// What the executor has to do. It does all of it in one task of its own: with one for each of
/// these, 64 callers took 0.84 times as many locks.
#[derive(Default)]
struct Turns {
    /// Whose turn it is, and whose after that.
    woken: VecDeque<Task>,
    /// It is at work on them, or will be.
    taken: bool,
}

impl Inline {
    pub(crate) fn new(executor: Executor) -> Self {
        let (turns, process, requests) = (Mutex::default(), Process::current(), Arc::default());
        Self(Arc::new(Connection { executor, turns, process, requests }))
    }

    /// What a request keeps, upgraded, while it waits for its reply.
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
    pub(crate) fn requests(&self) -> std::sync::Weak<()> {
        Arc::downgrade(&self.0.requests)
    }

    /// A task of which the one who wakes it does what there is to do, if it is within [`poll`], and
    /// the executor if not.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let schedule = |task| {
            if let Some(task) = keep(task) {
                leave(task);
            }
        };
        // Its panic is nobody's who only happens to be polled.
        let builder = Builder::new().propagate_panic(true).metadata(self.clone());
        let (runnable, task) = builder.spawn(|_| task, schedule);
        task.detach();
        runnable.schedule();
    }

    /// Each task has a clone of its own.
    fn is_crowded(&self) -> bool {
        Arc::strong_count(&self.0) + Arc::strong_count(&self.0.requests) > CROWD + 1
    }

    /// Does what there is to do; `false`: there is more.
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

/// Has the executor do what there is to do.
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

/// The executor's work. Where it has ended, tasks end unrun, as its own do.
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
            // The end of a task may wake another one.
            let unrun = mem::take(&mut *self.inline.0.turns.lock());
            drop(unrun);
        }
    }
}

/// One poll of a caller, and what it has woken.
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

/// That the thread is within a poll: one of its own, or one in another one. What is polled there
/// may block, as the program's own code may do in a request for a password: so its end waits for
/// no other one.
fn within() -> OnDrop<impl Fn()> {
    let outer = WITHIN.with(|within| within.replace(true));
    // Also if the poll panics.
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

    /// A task that tells on which thread it was woken, each time it is.
    fn listening(executor: &Executor) -> (Waker, mpsc::Receiver<ThreadId>) {
        let (sender, receiver) = mpsc::channel();
        let slot = Arc::new(Mutex::new(None));
        let to = Arc::clone(&slot);
        let task = poll_fn(move |context| {
            *to.lock() = Some(context.waker().clone());
            let _ = sender.send(thread::current().id());
            Poll::Pending
        });
        // Its first step is over by then: what is woken in the midst of one goes on where it is.
        poll(|| Inline::new(executor.clone()).spawn(task));
        waking_thread(&receiver);
        let waker = slot.lock().take().expect("polled");
        (waker, receiver)
    }

    fn waking_thread(receiver: &mpsc::Receiver<ThreadId>) -> ThreadId {
        receiver.recv_timeout(Duration::from_secs(20)).expect("it is woken")
    }

    #[test]
    fn who_wakes_a_task_within_a_poll_does_its_work() {
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
    fn a_poll_in_a_poll_waits_for_no_other() {
        let (waker, receiver) = listening(&Executor::own().unwrap());
        poll(|| {
            // What was woken before it is what it waits for, perhaps.
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
            // Wakes itself again and again.
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
    fn a_panic_harms_nobody_else() {
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
    fn the_executor_does_what_is_woken_while_it_is_at_work() {
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
    fn where_many_tasks_wait_the_executor_does_the_work() {
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
    fn where_the_executor_has_ended_tasks_end() {
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
        // Its end wakes the other one.
        inline.spawn(async move {
            go.send(()).unwrap();
            sender.send(()).unwrap();
        });
        assert_eq!(receiver.try_recv(), Err(mpsc::TryRecvError::Disconnected));
        // Who is within a poll does what there is to do, as ever.
        let (sender, receiver) = mpsc::channel();
        poll(|| inline.spawn(async move { sender.send(()).unwrap() }));
        assert_eq!(receiver.try_recv(), Ok(()));
    }
}
