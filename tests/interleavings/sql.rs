use distlock_interleavings::scenarios::sql;

use super::explore;

#[test]
fn no_notification_is_missed() {
    explore(sql::no_notification_is_missed, 3);
}

#[test]
fn watch_ends_before_the_next_one_begins() {
    explore(sql::watch_ends_before_the_next_one_begins, 3);
}

#[test]
fn next_expiry_is_noted() {
    explore(sql::next_expiry_is_noted, 3);
}

#[test]
fn releases_are_remembered() {
    explore(sql::releases_are_remembered, 3);
}

#[test]
fn notes_of_other_queues_are_kept() {
    explore(sql::notes_of_other_queues_are_kept, 3);
}

#[test]
fn conclusions_come_from_one_clock() {
    explore(sql::conclusions_come_from_one_clock, 3);
}

#[test]
fn requests_survive_a_reconnect() {
    explore(sql::requests_survive_a_reconnect, 1);
}

#[test]
fn each_report_moves_on_to_another_server() {
    explore(sql::each_report_moves_on_to_another_server, 3);
}

#[test]
fn one_task_lingers() {
    explore(sql::one_task_lingers, 1);
}
