use distlock_interleavings::scenarios::redis;

use super::explore;

#[test]
fn no_message_is_missed() {
    explore(redis::no_message_is_missed, 2);
}

#[test]
fn subscription_ends_before_the_next_one_begins() {
    explore(redis::subscription_ends_before_the_next_one_begins, 3);
}

#[test]
fn clock_belongs_to_the_server() {
    explore(redis::clock_belongs_to_the_server, 3);
}

#[test]
fn owner_is_sent_until_it_is_known() {
    explore(redis::owner_is_sent_until_it_is_known, 3);
}
