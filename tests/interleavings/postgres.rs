use distlock_interleavings::scenarios::postgres;

use super::{ALL, explore};

#[test]
fn one_request_has_the_turn() {
    explore(postgres::one_request_has_the_turn, 3);
}

#[test]
fn leave_waits_for_its_join() {
    explore(postgres::leave_waits_for_its_join, 3);
}

#[test]
fn join_waits_for_releases() {
    explore(postgres::join_waits_for_releases, 3);
}

#[test]
fn late_reply_does_not_begin_to_listen() {
    explore(postgres::late_reply_does_not_begin_to_listen, 3);
}

#[test]
fn highest_log_position_counts() {
    explore(postgres::highest_log_position_counts, ALL);
}

#[test]
fn busy_queue_is_not_quiet() {
    explore(postgres::busy_queue_is_not_quiet, ALL);
}
