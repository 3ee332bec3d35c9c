//! The world's clock, and who is polled next: one thread, and a seed that decides everything.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use crate::{runtime::mutex, world::World};

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
    /// Tasks that were woken, and whether under a lock of the library's: apart, as anything may
    /// wake.
    static WOKEN: RefCell<Vec<(TaskId, bool)>> = const { RefCell::new(Vec::new()) };
}

/// A task; its place may be another's later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskId {
    index: usize,
    generation: u32,
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Task {
    generation: u32,
    process: usize,
    what: &'static str,
    work: Option<Work>,
    waker: Option<Waker>,
    /// It waits in `ready`.
    queued: bool,
    /// The one who drives it does something else until then.
    neglected: Duration,
}

/// What happens at a time.
type Deed = Box<dyn FnOnce(&mut World)>;

enum Event {
    Timer(Waker),
    Deed(Deed),
}

/// When something happens, and its number: of those at one time, the first to be arranged is first.
pub(crate) type At = (Duration, u64);

/// All that waits for its turn or its time.
#[derive(Default)]
pub(crate) struct Scheduler {
    now: Duration,
    count: u64,
    events: BTreeMap<At, Event>,
    tasks: Vec<Task>,
    free: Vec<usize>,
    ready: Vec<TaskId>,
    aborted: Vec<TaskId>,
    running: Option<TaskId>,
    pub(crate) polls: u64,
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").field("now", &self.now).finish_non_exhaustive()
    }
}

struct Waking(TaskId);

impl Wake for Waking {
    fn wake(self: Arc<Self>) {
        WOKEN.with_borrow_mut(|woken| woken.push((self.0, mutex::any_locked())));
    }
}

impl Scheduler {
    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    /// Something happens so much later.
    pub(crate) fn after(&mut self, time: Duration, deed: impl FnOnce(&mut World) + 'static) {
        self.schedule(self.now + time, Event::Deed(Box::new(deed)));
    }

    fn schedule(&mut self, at: Duration, event: Event) -> At {
        self.count += 1;
        let at = (at, self.count);
        self.events.insert(at, event);
        at
    }

    fn task(&mut self, id: TaskId) -> Option<&mut Task> {
        self.tasks.get_mut(id.index).filter(|task| task.generation == id.generation)
    }

    fn add(&mut self, process: usize, what: &'static str, work: Work) -> TaskId {
        let task = Task {
            generation: 0,
            process,
            what,
            work: Some(work),
            waker: None,
            queued: true,
            neglected: Duration::ZERO,
        };
        let index = self.free.pop().unwrap_or(self.tasks.len());
        let generation = self.tasks.get(index).map_or(0, |task| task.generation + 1);
        let task = Task { generation, ..task };
        match self.tasks.get_mut(index) {
            Some(place) => *place = task,
            None => self.tasks.push(task),
        }
        let id = TaskId { index, generation };
        self.tasks[index].waker = Some(Waker::from(Arc::new(Waking(id))));
        self.ready.push(id);
        id
    }

    /// The work of a task that is no more: dropped by the caller, when nothing is borrowed.
    fn remove(&mut self, id: TaskId) -> Option<Work> {
        let task = self.task(id)?;
        let work = task.work.take();
        task.generation += 1;
        self.free.push(id.index);
        work
    }

    /// The task that is polled at this moment.
    pub(crate) fn running(&self) -> Option<TaskId> {
        self.running
    }

    /// A task is not polled until then, whatever wakes it.
    pub(crate) fn neglect(&mut self, task: TaskId, until: Duration) {
        if let Some(task) = self.task(task) {
            task.neglected = until;
        }
    }

    /// Until when the task was not to be polled that is polled now.
    pub(crate) fn neglected(&mut self) -> Duration {
        let running = self.running;
        running.and_then(|task| self.task(task)).map_or(Duration::ZERO, |task| task.neglected)
    }

    /// Nobody is neglected any more.
    pub(crate) fn look_after_all(&mut self) {
        for task in &mut self.tasks {
            task.neglected = task.neglected.min(self.now);
        }
        let all = self.tasks.iter().enumerate().filter(|(_, task)| task.queued);
        self.ready =
            all.map(|(index, task)| TaskId { index, generation: task.generation }).collect();
    }

    /// What tasks of a process there are.
    pub(crate) fn tasks_of(&self, process: usize) -> Vec<&'static str> {
        let tasks = self.tasks.iter().filter(|task| task.process == process);
        tasks.filter(|task| task.work.is_some()).map(|task| task.what).collect()
    }
}

/// Asks or changes the world. Nothing of the library's may be called within.
pub(crate) fn with<T>(ask: impl FnOnce(&mut World) -> T) -> T {
    WORLD.with_borrow_mut(|world| ask(world.as_mut().expect("a world")))
}

pub(crate) fn now() -> Duration {
    with(|world| world.scheduler.now)
}

pub(crate) fn draw<T>(draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
    with(|world| draw(&mut world.dice))
}

pub(crate) fn spawn(
    process: usize,
    what: &'static str,
    work: impl Future<Output = ()> + Send + 'static,
) -> TaskId {
    let work: Work = Box::pin(work);
    let (id, refused) = with(|world| {
        if world.processes[process].dead {
            return (TaskId { index: usize::MAX, generation: 0 }, Some(work));
        }
        (world.scheduler.add(process, what, work), None)
    });
    drop(refused);
    id
}

pub(crate) fn abort(task: TaskId) {
    with(|world| world.scheduler.aborted.push(task));
}

/// Wakes somebody at a time, or a little later. Takes the place of an earlier wish.
pub(crate) fn set_timer(earlier: Option<At>, at: Duration, waker: &Waker) -> At {
    with(|world| {
        if let Some(timer) = earlier
            && let Some(Event::Timer(known)) = world.scheduler.events.get_mut(&timer)
        {
            known.clone_from(waker);
            return timer;
        }
        let late = world.lateness();
        world.scheduler.schedule(at.saturating_add(late), Event::Timer(waker.clone()))
    })
}

pub(crate) fn unset_timer(timer: At) {
    let waker = with(|world| world.scheduler.events.remove(&timer));
    drop(waker);
}

/// Kills a process: none of its tasks is ever polled again.
pub(crate) fn kill(process: usize) {
    let left: (Vec<Work>, _) = with(|world| {
        world.processes[process].dead = true;
        world.busy.retain(|_, of| *of != process);
        let holders = world.take_holders(Some(process));
        let scheduler = &mut world.scheduler;
        let dead: Vec<_> = (0..scheduler.tasks.len())
            .filter(|index| scheduler.tasks[*index].process == process)
            .map(|index| TaskId { index, generation: scheduler.tasks[index].generation })
            .filter(|id| scheduler.tasks[id.index].work.is_some())
            .collect();
        (dead.into_iter().filter_map(|id| scheduler.remove(id)).collect(), holders)
    });
    drop(left);
}

pub(crate) fn start(world: World) {
    WORLD.with_borrow_mut(|place| *place = Some(world));
}

/// Runs the world until it is over, or until nothing can happen any more.
pub(crate) fn run(over: impl Fn(&World) -> bool) {
    while step(&over) {}
}

/// Nothing goes wrong from now on.
pub(crate) fn heal() {
    with(World::heal);
}

/// The end of a world: what is left of its tasks goes first.
pub(crate) fn end() -> World {
    drop(with(|world| world.take_holders(None)));
    loop {
        let works: Vec<Work> = with(|world| {
            world.processes.iter_mut().for_each(|process| process.dead = true);
            world.scheduler.tasks.iter_mut().filter_map(|task| task.work.take()).collect()
        });
        if works.is_empty() {
            break;
        }
        drop(works);
    }
    let due = with(|world| (std::mem::take(&mut world.scheduler.events), world.take_watchers()));
    drop(due);
    WOKEN.with_borrow_mut(Vec::clear);
    WORLD.with_borrow_mut(Option::take).expect("a world")
}

enum Next {
    Poll(TaskId, Work, Waker),
    Deed(Deed),
    Wake(Waker),
    Drop(Work),
    Kill(usize),
    Again,
    Over,
}

fn step(over: &impl Fn(&World) -> bool) -> bool {
    let mut woken = WOKEN.with_borrow_mut(std::mem::take);
    // Tokio's `watch` wakes in an order that it draws from a randomness of its own.
    woken.sort_unstable_by_key(|(id, _)| id.index);
    let next = with(|world| {
        for (id, locked) in woken {
            let Some(task) = world.scheduler.task(id) else { continue };
            let (queued, what) = (std::mem::replace(&mut task.queued, true), task.what);
            if !queued {
                world.scheduler.ready.push(id);
            }
            // Its waker might look at a guard.
            if locked && what == "caller" {
                world.history.violated("a caller was woken under a lock".into());
            }
        }
        if over(world) { Next::Over } else { world.next() }
    });
    match next {
        Next::Over => return false,
        Next::Again => {}
        Next::Deed(deed) => with(deed),
        Next::Wake(waker) => waker.wake(),
        Next::Drop(work) => drop(work),
        Next::Kill(process) => kill(process),
        Next::Poll(id, mut work, waker) => {
            let done = work.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Ready(());
            let left = with(|world| match world.scheduler.task(id) {
                Some(task) if !done => {
                    (task.work, task.waker) = (Some(work), Some(waker));
                    None
                }
                Some(_) => {
                    world.scheduler.remove(id);
                    Some(work)
                }
                // It was killed by what it did.
                None => Some(work),
            });
            drop(left);
        }
    }
    true
}

impl World {
    /// What happens next: what is due, somebody's turn, or the next thing whose time comes.
    fn next(&mut self) -> Next {
        if let Some(process) = self.doomed.pop() {
            return Next::Kill(process);
        }
        if let Some(id) = self.scheduler.aborted.pop() {
            return self.scheduler.remove(id).map_or(Next::Again, Next::Drop);
        }
        let now = self.scheduler.now;
        let due = self.scheduler.events.first_key_value().map(|((at, _), _)| *at);
        if due.is_some_and(|at| at <= now) {
            return self.happen();
        }
        if let Some(id) = self.pick() {
            let Some(task) = self.scheduler.task(id) else { return Next::Again };
            task.queued = false;
            let (Some(work), Some(waker)) = (task.work.take(), task.waker.take()) else {
                return Next::Again;
            };
            self.scheduler.polls += 1;
            let passes = self.passes();
            self.scheduler.now += passes;
            self.scheduler.running = Some(id);
            return Next::Poll(id, work, waker);
        }
        match due {
            Some(at) => {
                self.scheduler.now = at;
                self.happen()
            }
            None => Next::Over,
        }
    }

    fn happen(&mut self) -> Next {
        match self.scheduler.events.pop_first() {
            Some((_, Event::Timer(waker))) => Next::Wake(waker),
            Some((_, Event::Deed(deed))) => Next::Deed(deed),
            None => Next::Again,
        }
    }

    /// One of those that may be polled, whichever.
    fn pick(&mut self) -> Option<TaskId> {
        let now = self.scheduler.now;
        // For no reason.
        if !self.calm && self.dice.u32(..200) == 0 && !self.scheduler.tasks.is_empty() {
            let index = self.dice.usize(..self.scheduler.tasks.len());
            let task = &mut self.scheduler.tasks[index];
            if task.work.is_some() && !task.queued {
                task.queued = true;
                let id = TaskId { index, generation: task.generation };
                self.scheduler.ready.push(id);
            }
        }
        let mut held = Vec::new();
        let picked = loop {
            let count = self.scheduler.ready.len();
            if count == 0 {
                break None;
            }
            let place = self.dice.usize(..count);
            let id = self.scheduler.ready.swap_remove(place);
            let Some(task) = self.scheduler.task(id) else { continue };
            let until = task.neglected;
            let stopped = self.processes[task.process].stopped;
            let until = until.max(stopped);
            if until <= now {
                break Some(id);
            }
            held.push((id, until));
        };
        for (id, until) in held {
            // Back when its time comes.
            self.scheduler.after(until - now, move |world| {
                if world.scheduler.task(id).is_some() {
                    world.scheduler.ready.push(id);
                }
            });
        }
        picked
    }
}
