use distlock_interleavings::scenarios::zookeeper;

use super::explore;

#[test]
fn callers_learn_a_directory_in_turn() {
    explore(zookeeper::callers_learn_a_directory_in_turn, 3);
}

#[test]
fn mark_belongs_to_its_directory() {
    explore(zookeeper::mark_belongs_to_its_directory, 3);
}

#[test]
fn shared_list_contains_earlier_keys() {
    explore(zookeeper::shared_list_contains_earlier_keys, 3);
}
