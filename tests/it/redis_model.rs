//! The model of a Redis server passes every case, with the library's own scripts on a real Lua,
//! without a server.

use crate::common::{cases_for, conformance, network_conformance, redis::Model};

mod clock;
mod own;

macro_rules! tests_of_redis {
    ($($name:ident $path:literal),* $(,)?) => { $(
        #[expect(clippy::duplicate_mod, reason = "each module has its own server")]
        #[path = $path]
        mod $name;
    )* };
}
tests_of_redis! {
    assumptions "redis/assumptions.rs",
    bounded "redis/bounded.rs",
    bridge "redis/bridge.rs",
    emptied "redis/emptied.rs",
    former "redis/former.rs",
    observed "redis/observed.rs",
    servers "redis/servers.rs",
}

/// The server of tests that need none of their own.
type Shared = Model;

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
