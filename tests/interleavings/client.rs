use distlock_interleavings::scenarios::client;

use super::{explore, explore_differences};

#[test]
fn threads_of_a_client_take_turns() {
    explore_differences(client::threads_of_a_client_take_turns, 1);
}

#[test]
fn clients_take_turns() {
    explore_differences(client::clients_take_turns, 1);
}

#[test]
fn reentrant_calls_share_a_hold() {
    explore_differences(client::reentrant_calls_share_a_hold, 1);
}

#[test]
fn proclamations_take_turns() {
    explore_differences(client::proclamations_take_turns, 1);
}

#[test]
fn threads_share_the_first_session() {
    explore_differences(client::threads_share_the_first_session, 1);
}

#[test]
fn shutdown_waits_for_holders() {
    explore_differences(client::shutdown_waits_for_holders, 1);
}

#[test]
fn close_ends_the_session() {
    explore_differences(client::close_ends_the_session, 1);
}

#[test]
fn threads_share_a_space() {
    explore(client::threads_share_a_space, 3);
}

#[test]
fn spaces_draw_different_tokens() {
    explore_differences(client::spaces_draw_different_tokens, 1);
}
