//! Valkey passes every case. Needs the server of `docker/up`.

use crate::common::{cases_for, conformance, network_conformance, redis::Valkey};

conformance!(Valkey);
network_conformance!(Valkey);

mod waiting {
    use super::*;

    cases_for! { Valkey, alone,
        waiting::who_waits_behind_the_living_asks_for_nothing,
        waiting::requests_of_a_handover_are_counted,
        waiting::a_client_is_told_once_of_a_release,
    }
}
