use distlock_interleavings::scenarios::inline;

use super::explore;

#[test]
fn no_wake_is_lost() {
    explore(inline::no_wake_is_lost, 3);
}

#[test]
fn no_wake_is_lost_under_load() {
    explore(inline::no_wake_is_lost_under_load, 3);
}

#[test]
fn chained_tasks_complete() {
    explore(inline::chained_tasks_complete, 3);
}

#[test]
fn ended_executor_drops_its_tasks() {
    explore(inline::ended_executor_drops_its_tasks, 3);
}
