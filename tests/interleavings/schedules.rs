//! Enumerates every schedule of a scenario, or those with few preemptions.

use std::iter::once;

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

/// Enumerates, depth first, all schedules in which a runnable thread is preempted at most a given
/// number of times (<https://doi.org/10.1145/1250734.1250785>).
///
/// Alternatively, it enumerates all schedules that differ from the first one at most a given number
/// of times, also where a thread waits (<https://doi.org/10.1145/1926385.1926432>). In the first
/// schedule, a thread runs until it waits, and then the next thread runs.
#[derive(Debug)]
pub(super) struct Schedules {
    /// The number of preemptions, or of differences.
    most: usize,
    differences: bool,
    /// Those that are left in the current schedule.
    left: usize,
    /// The current schedule: the choice and the alternatives at each step.
    path: Vec<Choice>,
    step: usize,
    begun: bool,
}

#[derive(Debug)]
struct Choice {
    among: Vec<TaskId>,
    chosen: usize,
}

impl Schedules {
    pub(super) fn with(preemptions: usize) -> Self {
        let differences = false;
        Self { most: preemptions, differences, left: 0, path: Vec::new(), step: 0, begun: false }
    }

    pub(super) fn with_differences(most: usize) -> Self {
        Self { most, differences: true, ..Self::with(0) }
    }
}

impl Scheduler for Schedules {
    fn new_execution(&mut self) -> Option<Schedule> {
        if self.begun {
            let is_last = |choice: &Choice| choice.chosen + 1 == choice.among.len();
            while self.path.pop_if(|choice| is_last(choice)).is_some() {}
            self.path.last_mut()?.chosen += 1;
        }
        (self.begun, self.step, self.left) = (true, 0, self.most);
        Some(Schedule::new(0))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        yields: bool,
    ) -> Option<TaskId> {
        let ids = || runnable.iter().map(|task| task.id());
        let current_id = current;
        let current = current.filter(|current| ids().any(|id| id == *current));
        let others = ids().filter(|id| Some(*id) != current);
        if self.step == self.path.len() {
            let among = match current {
                _ if self.differences => {
                    let last = current_id.map_or(0, usize::from);
                    let mut all: Vec<_> = ids().collect();
                    all.sort_by_key(|id| {
                        let id = usize::from(*id);
                        (yields && id == last, id < last, id)
                    });
                    all.truncate(if self.left == 0 { 1 } else { all.len() });
                    all
                }
                Some(current) if !yields && self.left == 0 => vec![current],
                Some(current) if !yields => once(current).chain(others).collect(),
                Some(current) if runnable.len() == 1 => vec![current],
                _ => others.collect(),
            };
            self.path.push(Choice { among, chosen: 0 });
        }
        let Choice { among, chosen } = &self.path[self.step];
        let next = among[*chosen];
        self.step += 1;
        let differs = match self.differences {
            true => *chosen > 0,
            false => !yields && current.is_some_and(|current| current != next),
        };
        self.left -= usize::from(differs);
        Some(next)
    }

    fn next_u64(&mut self) -> u64 {
        unreachable!("no scenario uses random numbers")
    }
}
