//! Which event happens next, and which task is polled.

use std::task::{Context, Poll, Waker};

use super::{TaskId, WOKEN, Work, kill, with};
use crate::{
    events::{Deed, Event},
    world::World,
};

enum Next {
    Poll(TaskId, Work, Waker),
    Deed(Deed),
    Wake(Waker),
    Drop(Work),
    Kill(usize),
    Again,
    Over,
}

pub(super) fn step(over: &impl Fn(&World) -> bool) -> bool {
    let next = with(|world| {
        world.see_woken();
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
                // The task killed its own process.
                None => Some(work),
            });
            drop(left);
        }
    }
    true
}

impl World {
    /// Queues the tasks that were woken.
    fn see_woken(&mut self) {
        if WOKEN.with_borrow(Vec::is_empty) {
            return;
        }
        let mut woken = std::mem::take(&mut self.scheduler.woken);
        WOKEN.with_borrow_mut(|those| std::mem::swap(&mut woken, those));
        // Tokio's `watch` wakes in an order from its own random generator.
        woken.sort_unstable_by_key(|(id, _)| id.index);
        for (id, locked) in woken.drain(..) {
            let Some(task) = self.scheduler.task(id) else { continue };
            let (queued, what) = (std::mem::replace(&mut task.queued, true), task.what);
            if !queued {
                self.scheduler.ready.push(id);
            }
            // Its waker might read a guard.
            if locked && what == "caller" {
                self.history.violated("a caller was woken under a lock".into());
            }
        }
        self.scheduler.woken = woken;
    }

    /// Returns the next step: a due event, a task's turn, or the next timer.
    fn next(&mut self) -> Next {
        if let Some(process) = self.doomed.pop() {
            return Next::Kill(process);
        }
        if let Some(id) = self.scheduler.aborted.pop() {
            return self.scheduler.remove(id).map_or(Next::Again, Next::Drop);
        }
        let now = self.scheduler.now;
        let due = self.scheduler.events.due();
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
            self.scheduler.set_now(now + passes);
            self.scheduler.running = Some(id);
            self.scheduler.process = self.scheduler.task(id).map_or(0, |task| task.process);
            return Next::Poll(id, work, waker);
        }
        match due {
            Some(at) => {
                self.scheduler.set_now(at);
                self.happen()
            }
            None => Next::Over,
        }
    }

    fn happen(&mut self) -> Next {
        match self.scheduler.events.pop() {
            Some(Event::Timer(waker)) => Next::Wake(waker),
            Some(Event::Deed(deed)) => Next::Deed(deed),
            None => Next::Again,
        }
    }

    /// Picks any task that may be polled.
    fn pick(&mut self) -> Option<TaskId> {
        let now = self.scheduler.now;
        // A spurious wake-up.
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
            // Queued again at that time.
            self.scheduler.after(until - now, move |world| {
                if world.scheduler.task(id).is_some() {
                    world.scheduler.ready.push(id);
                }
            });
        }
        picked
    }
}
