//! The model of a Redis server passes every case: the library's own scripts on a real Lua, without
//! a server.

use crate::common::{cases_for, conformance, network_conformance, redis::Model};

conformance!(Model);
network_conformance!(Model);

mod waiting {
    use super::*;

    cases_for! { Model, alone,
        waiting::a_waiter_behind_a_live_session_sends_no_requests,
        waiting::requests_of_a_handover_are_counted,
        waiting::a_release_notifies_a_client_once,
        waiting::every_client_that_waits_is_notified,
    }
}
