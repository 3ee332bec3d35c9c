use distlock_interleavings::scenarios::carried;

use super::explore;

#[test]
fn caller_receives_result_after_takeover() {
    explore(carried::caller_receives_result_after_takeover, 3);
}

#[test]
fn detached_work_completes_exactly_once() {
    explore(carried::detached_work_completes_exactly_once, 3);
}

#[test]
fn cancelled_work_is_dropped() {
    explore(carried::cancelled_work_is_dropped, 3);
}

#[test]
fn stalled_work_is_taken_over() {
    explore(carried::stalled_work_is_taken_over, 1);
}
