use distlock_interleavings::scenarios::carried;

use super::explore;

#[test]
fn a_caller_learns_what_came_of_it() {
    explore(carried::a_caller_learns_what_came_of_it, 3);
}

#[test]
fn what_is_whole_is_done_once() {
    explore(carried::what_is_whole_is_done_once, 3);
}

#[test]
fn what_is_given_up_is_dropped() {
    explore(carried::what_is_given_up_is_dropped, 3);
}
