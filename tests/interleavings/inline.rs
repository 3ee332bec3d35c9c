use distlock_interleavings::scenarios::inline;

use super::explore;

#[test]
fn no_wake_is_lost() {
    explore(inline::no_wake_is_lost, 3);
}

#[test]
fn no_wake_is_lost_in_a_crowd() {
    explore(inline::no_wake_is_lost_in_a_crowd, 3);
}

#[test]
fn chains_come_to_their_end() {
    explore(inline::chains_come_to_their_end, 3);
}

#[test]
fn tasks_of_an_executor_that_ends_are_dropped() {
    explore(inline::tasks_of_an_executor_that_ends_are_dropped, 3);
}
