use distlock_interleavings::scenarios::eviction;

use super::explore;

#[test]
fn keys_granted_at_once_are_watched() {
    explore(eviction::keys_granted_at_once_are_watched, 1);
}

#[test]
fn evicted_holder_is_notified() {
    explore(eviction::evicted_holder_is_notified, 1);
}

#[test]
fn evicted_holder_is_notified_without_its_event() {
    explore(eviction::evicted_holder_is_notified_without_its_event, 1);
}

#[test]
fn key_granted_during_a_recheck_is_not_checked() {
    explore(eviction::key_granted_during_a_recheck_is_not_checked, 1);
}

#[test]
fn released_holder_is_not_notified() {
    explore(eviction::released_holder_is_not_notified, 2);
}
