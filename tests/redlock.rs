//! Redlock passes every case of what it offers, and its own. Needs the servers of `docker/up`.

#![allow(clippy::expect_used)] // also outside of the test functions

#[allow(dead_code, unused_macros)] // not all of it is offered
mod common;
#[path = "redlock/nodes.rs"]
mod nodes;
#[path = "redlock/offers.rs"]
mod offers;
#[path = "redlock/rules.rs"]
mod rules;

use common::redlock::Redlock;

mod conformance {
    use super::*;

    // Without the cases that stand in a queue, look at one, or end a session on the servers.
    common::cases_for! { Redlock, beside_others,
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
    }
}

/// No test: `common/process.rs` runs this binary once more to have a process that it can kill.
#[test]
fn job_of_another_process() {
    common::process::run_job();
}
