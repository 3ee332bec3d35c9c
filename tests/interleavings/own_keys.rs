use distlock_interleavings::scenarios::own_keys;

use super::explore;

#[test]
fn hold_ends_exactly_once() {
    explore(own_keys::hold_ends_exactly_once, 3);
}

#[test]
fn key_is_expired_or_replaced() {
    explore(own_keys::key_is_expired_or_replaced, 3);
}

#[test]
fn successor_learns_how_its_predecessor_ended() {
    explore(own_keys::successor_learns_how_its_predecessor_ended, 3);
}

#[test]
fn first_loss_reason_of_a_key_is_kept() {
    explore(own_keys::first_loss_reason_of_a_key_is_kept, 3);
}

#[test]
fn reported_loss_reaches_the_holder_or_is_refused() {
    explore(own_keys::reported_loss_reaches_the_holder_or_is_refused, 3);
}

#[test]
fn key_joining_during_search_is_found() {
    explore(own_keys::key_joining_during_search_is_found, 3);
}

#[test]
fn reused_name_is_not_forgotten() {
    explore(own_keys::reused_name_is_not_forgotten, 2);
}
