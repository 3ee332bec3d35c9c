//! Explores how threads interleave.

mod carried;
mod deadline;
mod eviction;
mod inline;
mod own_keys;
mod schedules;

use schedules::Schedules;

/// Every possible schedule.
const ALL: usize = usize::MAX;

/// Runs a scenario under every schedule with at most this many preemptions.
fn explore(scenario: fn(), preemptions: usize) {
    let runner = shuttle::Runner::new(Schedules::with(preemptions), shuttle::Config::default());
    let schedules = runner.run(scenario);
    assert!(schedules > 100, "every scenario has a choice of schedules: {schedules}");
}
