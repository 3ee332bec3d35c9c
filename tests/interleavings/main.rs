//! Explores how threads interleave.

mod carried;
mod client;
mod deadline;
mod etcd;
mod eviction;
mod inline;
mod mysql;
mod own_keys;
mod postgres;
mod redis;
mod redlock;
mod schedules;
mod session;
mod sql;
mod telemetry;
mod zookeeper;

use std::sync::{Mutex, PoisonError};

use schedules::Schedules;

/// Every possible schedule.
const ALL: usize = usize::MAX;

/// The bytes of a thread's stack.
const STACK: usize = 1 << 20;

/// Held by the scenario that runs: the statics of the library belong to one scheduler at a time.
static RUNS: Mutex<()> = Mutex::new(());

/// Runs a scenario under every schedule with at most this many preemptions.
fn explore(scenario: fn(), preemptions: usize) {
    run(scenario, Schedules::with(preemptions));
}

/// Runs a scenario under every schedule that differs at most this many times from the first one.
fn explore_differences(scenario: fn(), most: usize) {
    run(scenario, Schedules::with_differences(most));
}

fn run(scenario: fn(), schedules: Schedules) {
    let _runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut config = shuttle::Config::default();
    // The futures of a whole client are larger than the usual stack, if they are not optimized.
    config.stack_size = STACK;
    let schedules = shuttle::Runner::new(schedules, config).run(scenario);
    println!("{schedules} schedules");
    assert!(schedules > 100, "every scenario has a choice of schedules: {schedules}");
}
