use distlock_interleavings::scenarios::session;

use super::{explore, explore_differences};

#[test]
fn attempts_key_is_no_stray() {
    explore(session::attempts_key_is_no_stray, 3);
}

#[test]
fn doubt_begins_the_search() {
    explore(session::doubt_begins_the_search, 3);
}

#[test]
fn last_room_is_given_once() {
    explore(session::last_room_is_given_once, 3);
}

#[test]
fn throttled_work_is_due_once() {
    explore(session::throttled_work_is_due_once, 3);
}

#[test]
fn request_begins_or_is_given_up() {
    explore(session::request_begins_or_is_given_up, 3);
}

#[test]
fn gate_refuses_older_tokens() {
    explore(session::gate_refuses_older_tokens, 3);
}

#[test]
fn newest_credentials_are_kept() {
    explore(session::newest_credentials_are_kept, 3);
}

#[test]
fn ticket_is_reused_once() {
    explore_differences(session::ticket_is_reused_once, 1);
}

#[test]
fn waiter_is_notified_of_the_shutdown() {
    explore(session::waiter_is_notified_of_the_shutdown, 3);
}
