//! Redlock passes every case of what it offers, and its own. Needs the servers of `docker/up`.

mod nodes;
mod offers;
mod rules;
mod secured;

use crate::common::redlock::Redlock;

mod conformance {
    use super::*;

    // Cases of a mutex that stay out, and why:
    //
    // exclusion  waiters_are_granted_in_order, ..._though_holders_are_lost: there is no order
    // trying     try_lock_does_not_pass_waiters: there is no order
    // unpolled   what_is_left_unpolled_..., tries_end_in_time_...: need all primitives
    //            a_session_is_replaced_...: no node knows of a session that could be ended
    // losing     an_ended_session_..., a_lost_session_is_replaced: the same
    //            a_deleted_key_is_told_within_a_second: the next renewal tells, after a third of
    //            the TTL; nodes are not asked to tell of keys
    //            an_evicted_waiter_..., a_crashed_waiter_...: who waits has no key
    //            an_operator_evicts_...: there is no eviction
    // service    a_client_that_shuts_down_...: there are no requests to let go
    // closing    the_last_clone_ends_the_session: no node knows of sessions
    //            a_ttl_beyond_bounds_...: for a TTL of a day, servers count after a day
    // network    a_join_whose_reply_is_late_...: who waits has no key
    //            what_happens_before_the_watch_..., late_answers_...: nodes have 200 ms to answer
    // costs      a_release_wakes_one_waiter, idle_waiters_cost_nothing: who waits asks
    //            held_locks_share_one_keepalive: 256 share one script, so that none takes long
    crate::common::cases_for! { Redlock, beside_others,
        exclusion::fifty_contenders_never_overlap,
        exclusion::two_tasks_of_one_client_exclude_each_other,
        exclusion::two_namespaces_are_independent,
        exclusion::tokens_rise_over_twenty_grants,
        exclusion::tokens_rise_across_clients_that_come_and_go,
        exclusion::tokens_rise_after_the_lock_was_forgotten,
        names::names_that_begin_alike_are_independent,
        names::odd_names_work_and_are_independent,
        names::guards_tell_their_name_and_their_key,
        trying::try_lock_takes_a_free_lock,
        trying::two_take_turns_by_trying,
        trying::try_lock_on_a_held_lock_leaves_nothing_at_any_time,
        trying::try_locks_at_once_grant_one_at_most,
        trying::hasty_tries_are_granted_or_gone,
        trying::lock_timeout_gives_up_in_time,
        trying::lock_timeout_of_zero_is_a_try_lock,
        trying::lock_timeout_takes_a_lock_that_comes_free,
        guards::unlock_lets_the_next_one_in,
        guards::a_dropped_guard_releases,
        guards::a_guard_dropped_outside_a_runtime_releases,
        guards::a_guard_dropped_by_a_panic_releases,
        guards::a_guard_moves_between_runtimes,
        guards::a_guard_outlives_its_runtime,
        guards::a_blocked_runtime_keeps_its_lock,
        guards::a_lock_is_kept_for_three_ttls,
        guards::run_returns_the_value,
        guards::work_is_done_under_a_lock_that_is_then_free,
        guards::a_client_tells_how_it_is,
        cancelling::dropped_unlocks_still_release,
        unpolled::failed_openings_are_shared,
        losing::a_holder_that_is_cut_off_knows_before_its_successor,
        losing::a_crashed_holder_is_succeeded_in_time,
        losing::an_unlock_of_what_was_lost_spares_the_successor,
        losing::unlock_without_a_store_is_never_ok,
        losing::a_release_that_never_arrives_ends_with_the_ttl,
        service::a_client_tells_what_its_store_promises,
        service::a_holder_takes_its_lock_again,
        closing::closing_again_tells_the_truth,
        closing::dead_endpoints_are_unavailable_in_time,
        closing::a_lazy_client_opens_its_session_when_it_is_needed,
        network::a_holder_that_is_not_heard_knows_before_its_successor,
        network::a_holder_that_hears_nothing_knows_before_its_successor,
        network::a_holder_that_was_stopped_knows_when_it_wakes,
        network::a_process_that_exits_gives_its_lock_back,
        network::flapping_networks_never_make_two_holders,
        network::one_refused_endpoint_does_no_harm,
        network::one_silent_endpoint_does_no_harm,
        network::refused_endpoints_are_unavailable_at_once,
        exclusion::tokens_follow_the_queue,
        exclusion::a_write_that_outlives_its_lock_is_refused,
        names::bad_names_are_refused_before_anything_is_sent,
        names::bad_options_are_refused_before_anything_is_sent,
        trying::waiters_that_timed_out_are_passed_over,
        guards::a_waiter_of_a_dropped_runtime_leaves_the_queue,
        guards::run_drops_the_future_at_loss,
        cancelling::a_thousand_dropped_locks_leave_nothing,
        cancelling::a_lock_dropped_after_any_poll_leaves_nothing,
        cancelling::a_waiter_dropped_at_its_grant_passes_the_lock_on,
        cancelling::waiters_dropped_in_the_middle_do_not_wake_the_last,
        cancelling::waiters_of_one_client_dropped_in_the_middle_do_not_wake_the_last,
        unpolled::hundreds_of_joins_polled_once_block_nobody,
        unpolled::a_try_does_not_wait_for_a_crowd,
        losing::a_waiter_that_is_cut_off_is_told,
        losing::a_release_is_completed_when_the_store_is_back,
        closing::close_releases_everything,
        closing::close_ends_waiting,
        closing::a_guard_keeps_its_session_alive,
        closing::the_granted_ttl_is_told,
        network::a_join_whose_reply_is_lost_leaves_one_key,
        network::a_dropped_join_whose_reply_is_lost_leaves_nothing,
        network::a_release_whose_reply_is_lost_spares_the_successor,
        network::locks_and_waiters_outlive_their_connections,
        network::what_happens_while_disconnected_is_seen_afterwards,
        network::a_lost_event_is_made_good_by_the_recheck,
        network::a_holder_whose_event_was_lost_is_told_by_the_recheck,
        network::a_slow_network_loses_nothing,
        network::a_lock_outlives_its_server_falling_silent,
    }
    crate::common::cases_for! { Redlock, alone,
        costs::an_uncontended_lock_costs_what_it_must,
        costs::a_try_lock_on_a_held_lock_only_looks,
        costs::held_locks_share_one_recheck,
        costs::a_lock_that_is_never_polled_costs_nothing,
    }
}
