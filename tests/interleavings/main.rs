//! What threads do at once.

mod carried;
mod deadline;
mod eviction;
mod inline;
mod own_keys;
mod schedules;

use schedules::Schedules;

/// Every schedule there is.
const ALL: usize = usize::MAX;

/// Runs a scenario by every schedule with at most so many preemptions.
fn explore(scenario: fn(), preemptions: usize) {
    let runner = shuttle::Runner::new(Schedules::with(preemptions), shuttle::Config::default());
    let schedules = runner.run(scenario);
    assert!(schedules > 100, "there is something to choose in every scenario: {schedules}");
}
