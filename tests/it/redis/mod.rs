//! Redis passes every case, and some of its own. The tests need the server of `docker/up`.

mod alike;
mod assumptions;
mod bounded;
mod bridge;
mod bridged;
mod clock;
mod emptied;
mod former;
mod killed;
#[cfg(feature = "tracing")]
mod logged;
pub(crate) mod monitor;
mod observed;
pub(crate) mod others;
mod own;
mod redlock_net;
mod rights;
mod script_times;
mod secured;
mod servers;
mod unused;

use crate::common::{cases_for, conformance, network_conformance, redis::Redis};

/// The server of tests that need none of their own.
type Shared = Redis;

#[cfg(feature = "blocking")]
crate::common::blocking!(Redis);
conformance!(Redis);
network_conformance!(Redis);

mod waiting {
    use super::*;

    cases_for! { Redis, alone,
        waiting::a_waiter_behind_a_live_session_sends_no_requests,
        waiting::requests_of_a_handover_are_counted,
        waiting::a_release_notifies_a_client_once,
        waiting::every_client_that_waits_is_notified,
    }
}
