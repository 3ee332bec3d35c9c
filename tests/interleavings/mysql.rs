use distlock_interleavings::scenarios::mysql;

use super::explore;

#[test]
fn waiter_with_an_older_state_is_notified() {
    explore(mysql::waiter_with_an_older_state_is_notified, 2);
}

#[test]
fn lockable_entries_are_kept() {
    explore(mysql::lockable_entries_are_kept, 3);
}
