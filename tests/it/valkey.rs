//! Valkey passes every case. The tests need the server of `docker/up`.

use crate::common::{cases_for, conformance, network_conformance, redis::Valkey};

conformance!(Valkey);
network_conformance!(Valkey);

mod waiting {
    use super::*;

    cases_for! { Valkey, alone,
        waiting::a_waiter_behind_a_live_session_sends_no_requests,
        waiting::requests_of_a_handover_are_counted,
        waiting::a_release_notifies_a_client_once,
        waiting::every_client_that_waits_is_notified,
    }
}
