//! Redlock passes every case of its features, and its own. The tests need the servers of
//! `docker/up`.

mod costs;
mod nodes;
mod offers;
mod rights;
mod rules;
mod secured;

use crate::common::{cases_for, plain_mutex_cases, plain_mutex_network_cases, redlock::Redlock};

mod conformance {
    use super::*;

    // Cases of a mutex that are excluded, and why:
    //
    // exclusion  waiters_are_granted_in_order, ..._though_holders_are_lost: Redlock has no order
    // trying     try_lock_does_not_pass_waiters: Redlock has no order
    // unpolled   abandoned_futures_..., tries_end_in_time_...: need all primitives
    //            a_session_is_replaced_...: nodes store no sessions
    // losing     holder_of_an_ended_session_..., waiters_of_an_ended_session_...,
    //            a_lost_session_is_replaced: nodes store no sessions
    //            holder_of_a_deleted_key_...: the next renewal detects it, after a third of the
    //            TTL; the nodes' keys are not watched
    //            an_evicted_waiter_..., a_crashed_waiter_...: waiters have no key
    //            an_operator_evicts_..., an_eviction_spares_...: Redlock has no eviction
    // service    a_client_that_shuts_down_...: Redlock has no release requests
    // closing    the_last_clone_ends_the_session: nodes store no sessions
    //            a_ttl_beyond_bounds_...: with a TTL of a day, nodes count after a day
    // network    a_join_whose_reply_is_late_...: waiters have no key
    //            release_before_the_watch_..., late_keepalive_replies_...: nodes have 200 ms to
    //            reply
    // costs      a_release_wakes_one_waiter, idle_waiters_cost_nothing: waiters poll
    //            held_locks_share_one_keepalive: at most 256 in one script, to keep it short
    plain_mutex_cases! { cases_for { Redlock, beside_others, } }
    plain_mutex_network_cases! { cases_for { Redlock, beside_others, } }
    cases_for! { Redlock, beside_others,
        exclusion::two_namespaces_are_independent,
        service::durability_matches_the_guarantees_of_the_store,
        service::a_holder_takes_its_lock_again,
    }
    cases_for! { Redlock, alone,
        costs::uncontended_lock_has_a_fixed_request_cost,
        costs::try_lock_on_a_held_lock_creates_no_watch,
        costs::held_locks_share_one_recheck,
        costs::a_lock_that_is_never_polled_costs_nothing,
    }
}
