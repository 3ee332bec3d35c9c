//! The world's clock, and the order of polls: one thread, and a seed that decides everything.

mod turn;

use std::{
    cell::{Cell, RefCell},
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Wake, Waker},
    time::Duration,
};

use crate::{
    events::{Event, EventId, Events},
    runtime::mutex,
    world::World,
};

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
    /// The clock's current time, which the library reads often.
    static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// Tasks that were woken, and whether under one of the library's locks. Kept apart from the
    /// world, because any code may wake a task.
    static WOKEN: RefCell<Vec<(TaskId, bool)>> = const { RefCell::new(Vec::new()) };
}

/// The identity of a task. Its place may be reused by a later task.
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
    /// Its driver is busy with other work until then.
    neglected: Duration,
}

/// All tasks and timers.
#[derive(Default)]
pub(crate) struct Scheduler {
    now: Duration,
    events: Events,
    tasks: Vec<Task>,
    free: Vec<usize>,
    ready: Vec<TaskId>,
    aborted: Vec<TaskId>,
    /// The buffer of the tasks that were woken, empty between uses to keep its capacity.
    woken: Vec<(TaskId, bool)>,
    running: Option<TaskId>,
    /// The process of the running task.
    process: usize,
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

    /// Schedules an action after the given time.
    pub(crate) fn after(&mut self, time: Duration, deed: impl FnOnce(&mut World) + 'static) {
        self.events.add(self.now + time, Event::Deed(Box::new(deed)));
    }

    fn set_now(&mut self, now: Duration) {
        self.now = now;
        NOW.set(now);
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

    /// Removes a task and returns its work, to be dropped by the caller when nothing is borrowed.
    fn remove(&mut self, id: TaskId) -> Option<Work> {
        let task = self.task(id)?;
        let work = task.work.take();
        task.generation += 1;
        self.free.push(id.index);
        work
    }

    /// Returns the task that is being polled.
    pub(crate) fn running(&self) -> Option<TaskId> {
        self.running
    }

    /// Returns the process of the task that is being polled or was polled last.
    pub(crate) fn process(&self) -> usize {
        self.process
    }

    /// Prevents polls of a task until the given time, even if it is woken.
    pub(crate) fn neglect(&mut self, task: TaskId, until: Duration) {
        if let Some(task) = self.task(task) {
            task.neglected = until;
        }
    }

    /// Returns the time until which the running task was not polled.
    pub(crate) fn neglected(&mut self) -> Duration {
        let running = self.running;
        running.and_then(|task| self.task(task)).map_or(Duration::ZERO, |task| task.neglected)
    }

    /// Ends the neglect of every task.
    pub(crate) fn look_after_all(&mut self) {
        for task in &mut self.tasks {
            task.neglected = task.neglected.min(self.now);
        }
        let all = self.tasks.iter().enumerate().filter(|(_, task)| task.queued);
        self.ready =
            all.map(|(index, task)| TaskId { index, generation: task.generation }).collect();
    }

    /// Returns the tasks of a process.
    pub(crate) fn tasks_of(&self, process: usize) -> Vec<&'static str> {
        let tasks = self.tasks.iter().filter(|task| task.process == process);
        tasks.filter(|task| task.work.is_some()).map(|task| task.what).collect()
    }
}

/// Reads or changes the world. The closure must not call the library.
pub(crate) fn with<T>(ask: impl FnOnce(&mut World) -> T) -> T {
    WORLD.with_borrow_mut(|world| ask(world.as_mut().expect("a world")))
}

/// Reads or changes the world, if there still is one.
pub(crate) fn try_with(ask: impl FnOnce(&mut World)) {
    WORLD.with_borrow_mut(|world| world.as_mut().map(ask));
}

pub(crate) fn now() -> Duration {
    NOW.get()
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

/// Wakes a task at a time or a little later, in place of an earlier timer.
pub(crate) fn set_timer(earlier: Option<EventId>, at: Duration, waker: &Waker) -> EventId {
    with(|world| {
        if let Some(timer) = earlier
            && let Some(Event::Timer(known)) = world.scheduler.events.get_mut(timer)
        {
            known.clone_from(waker);
            return timer;
        }
        let late = world.lateness();
        world.scheduler.events.add(at.saturating_add(late), Event::Timer(waker.clone()))
    })
}

pub(crate) fn unset_timer(timer: EventId) {
    let waker = with(|world| world.scheduler.events.remove(timer));
    drop(waker);
}

/// Kills a process: none of its tasks is polled again.
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
    NOW.set(world.scheduler.now);
    WORLD.with_borrow_mut(|place| *place = Some(world));
}

/// Runs the world until it is over, or until no event is left.
pub(crate) fn run(over: impl Fn(&World) -> bool) {
    while turn::step(&over) {}
}

/// Stops all faults.
pub(crate) fn heal() {
    with(World::heal);
}

/// Ends a world, after the remaining tasks are dropped.
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

/// Ends a world in which code panicked: the rest of it must not be touched again.
pub(crate) fn abandon() {
    std::mem::forget(WORLD.with_borrow_mut(Option::take));
    WOKEN.with_borrow_mut(Vec::clear);
}
