//! Models of five Redis servers pass the cases of Redlock, without a server.

mod nodes;

macro_rules! tests_of_redlock {
    ($($name:ident $path:literal),* $(,)?) => { $(
        #[expect(clippy::duplicate_mod, reason = "each module has its own nodes")]
        #[path = $path]
        mod $name;
    )* };
}
tests_of_redlock! {
    costs "redlock/costs.rs",
    rules "redlock/rules.rs",
}

use crate::common::{cases_for, plain_mutex_cases, plain_mutex_network_cases, redlock::Model};

mod conformance {
    use super::*;

    plain_mutex_cases! { cases_for { Model, beside_others, } }
    plain_mutex_network_cases! { cases_for { Model, beside_others, } }
    cases_for! { Model, beside_others,
        exclusion::two_namespaces_are_independent,
        service::durability_matches_the_guarantees_of_the_store,
        service::a_holder_takes_its_lock_again,
    }
    cases_for! { Model, alone,
        costs::uncontended_lock_has_a_fixed_request_cost,
        costs::try_lock_on_a_held_lock_creates_no_watch,
        costs::held_locks_share_one_recheck,
        costs::a_lock_that_is_never_polled_costs_nothing,
    }
}
