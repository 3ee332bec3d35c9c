use distlock_interleavings::scenarios::redlock;

use super::explore;

#[test]
fn all_strays_are_freed_by_one_task() {
    explore(redlock::all_strays_are_freed_by_one_task, 3);
}

#[test]
fn contended_locks_are_remembered() {
    explore(redlock::contended_locks_are_remembered, 3);
}

#[test]
fn watch_of_a_lost_key_ends() {
    explore(redlock::watch_of_a_lost_key_ends, 3);
}
