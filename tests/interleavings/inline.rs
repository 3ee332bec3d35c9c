use distlock_interleavings::scenarios::inline;

use super::explore;

#[test]
fn no_wake_is_lost() {
    explore(inline::no_wake_is_lost);
}

#[test]
fn no_wake_is_lost_in_a_crowd() {
    explore(inline::no_wake_is_lost_in_a_crowd);
}

#[test]
fn chains_come_to_their_end() {
    explore(inline::chains_come_to_their_end);
}

#[test]
fn tasks_of_an_executor_that_ends_are_dropped() {
    explore(inline::tasks_of_an_executor_that_ends_are_dropped);
}
