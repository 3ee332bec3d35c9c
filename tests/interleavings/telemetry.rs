use distlock_interleavings::scenarios::telemetry::{self, recorded};

use super::explore;

#[test]
fn hold_is_reported_once() {
    recorded(|| explore(telemetry::hold_is_reported_once, 3));
}

#[test]
fn metric_has_one_key() {
    recorded(|| explore(telemetry::metric_has_one_key, 3));
}

#[test]
fn shortest_remaining_time_is_shown() {
    recorded(|| explore(telemetry::shortest_remaining_time_is_shown, 3));
}
