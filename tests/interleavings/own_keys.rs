use distlock_interleavings::scenarios::own_keys;

use super::explore;

#[test]
fn hold_has_one_end() {
    explore(own_keys::hold_has_one_end, 3);
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
fn first_loss_of_a_key_stays() {
    explore(own_keys::first_loss_of_a_key_stays, 3);
}

#[test]
fn reported_loss_reaches_the_holder_or_is_refused() {
    explore(own_keys::reported_loss_reaches_the_holder_or_is_refused, 3);
}

#[test]
fn key_that_joins_meanwhile_is_found() {
    explore(own_keys::key_that_joins_meanwhile_is_found, 3);
}

#[test]
fn name_that_comes_again_is_not_forgotten() {
    explore(own_keys::name_that_comes_again_is_not_forgotten, 2);
}
