use distlock_interleavings::scenarios::deadline;

use super::{ALL, explore};

#[test]
fn renewal_at_the_deadline_extends_all_or_nothing() {
    explore(deadline::renewal_at_the_deadline_extends_all_or_nothing, ALL);
}

#[test]
fn grant_at_the_deadline_is_before_the_loss_or_fails() {
    explore(deadline::grant_at_the_deadline_is_before_the_loss_or_fails, ALL);
}

#[test]
fn first_end_reason_is_kept() {
    explore(deadline::first_end_reason_is_kept, ALL);
}

#[test]
fn session_end_wakes_all_waiters() {
    explore(deadline::session_end_wakes_all_waiters, ALL);
}

#[test]
fn last_release_ends_the_wait_for_it() {
    explore(deadline::last_release_ends_the_wait_for_it, ALL);
}

#[test]
fn session_is_busy_while_an_attempt_is_under_way() {
    explore(deadline::session_is_busy_while_an_attempt_is_under_way, 3);
}

#[test]
fn renewal_after_a_stall_counts_from_before_it() {
    explore(deadline::renewal_after_a_stall_counts_from_before_it, ALL);
}
