use distlock_interleavings::scenarios::etcd;

use super::explore;

#[test]
fn cached_watch_fits() {
    explore(etcd::cached_watch_fits, 3);
}

#[test]
fn level_belongs_to_the_queue() {
    explore(etcd::level_belongs_to_the_queue, 3);
}
