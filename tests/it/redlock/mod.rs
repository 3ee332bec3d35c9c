//! Redlock passes every case of what it offers, and its own. Needs the servers of `docker/up`.

mod costs;
mod nodes;
mod offers;
mod rules;
mod secured;

use crate::common::{cases_for, plain_mutex_cases, plain_mutex_network_cases, redlock::Redlock};

mod conformance {
    use super::*;

    // Cases of a mutex that stay out, and why:
    //
    // exclusion  waiters_are_granted_in_order, ..._though_holders_are_lost: there is no order
    // trying     try_lock_does_not_pass_waiters: there is no order
    // unpolled   abandoned_futures_..., tries_end_in_time_...: need all primitives
    //            a_session_is_replaced_...: no node knows of a session that could be ended
    // losing     ..._of_an_ended_session_..., a_lost_session_is_replaced: the same
    //            holder_of_a_deleted_key_...: the next renewal shows it, after a third of the TTL;
    //            nodes are not asked to notify of keys
    //            an_evicted_waiter_..., a_crashed_waiter_...: who waits has no key
    //            an_operator_evicts_...: there is no eviction
    // service    a_client_that_shuts_down_...: there are no requests to let go
    // closing    the_last_clone_ends_the_session: no node knows of sessions
    //            a_ttl_beyond_bounds_...: for a TTL of a day, servers count after a day
    // network    a_join_whose_reply_is_late_...: who waits has no key
    //            what_happens_before_the_watch_..., late_answers_...: nodes have 200 ms to answer
    // costs      a_release_wakes_one_waiter, idle_waiters_cost_nothing: who waits asks
    //            held_locks_share_one_keepalive: 256 share one script, so that none takes long
    plain_mutex_cases! { cases_for { Redlock, beside_others, } }
    plain_mutex_network_cases! { cases_for { Redlock, beside_others, } }
    cases_for! { Redlock, beside_others,
        exclusion::two_namespaces_are_independent,
        service::durability_is_what_the_store_promises,
        service::a_holder_takes_its_lock_again,
    }
    cases_for! { Redlock, alone,
        costs::an_uncontended_lock_costs_what_it_must,
        costs::a_try_lock_on_a_held_lock_only_looks,
        costs::held_locks_share_one_recheck,
        costs::a_lock_that_is_never_polled_costs_nothing,
    }
}
