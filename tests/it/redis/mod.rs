//! Redis passes every case, and some of its own. Needs the server of `docker/up`.

mod assumptions;
mod bridge;
mod bridged;
mod clock;
mod emptied;
mod killed;
#[cfg(feature = "tracing")]
mod logged;
mod others;
mod own;
mod secured;
mod servers;

use crate::common::{cases_for, conformance, network_conformance, redis::Redis};

#[cfg(feature = "blocking")]
crate::common::blocking!(Redis);
conformance!(Redis);
network_conformance!(Redis);

mod waiting {
    use super::*;

    cases_for! { Redis, alone,
        waiting::who_waits_behind_the_living_asks_for_nothing,
        waiting::requests_of_a_handover_are_counted,
        waiting::a_client_is_told_once_of_a_release,
    }
}
