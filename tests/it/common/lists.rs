//! The lists of cases, each of which a store emits as tests.

/// Emits every case as a test, in a module of its own.
macro_rules! conformance {
    ($harness:ty) => {
        mod conformance {
            use super::*;

            $crate::common::mutex_cases! { cases_for { $harness, beside_others, } }
            $crate::common::cases_for! { $harness, for_long,
                programs::random_programs_match_the_model,
            }
            $crate::common::cases_for! { $harness, beside_others,
                exclusion::two_namespaces_are_independent,
                guards::timeouts_work_without_a_caller_runtime,
                unpolled::tries_end_in_time_without_a_store,
                unpolled::abandoned_futures_block_no_other_call,
                rwlock::readers_share_and_writers_do_not,
                rwlock::readers_and_writers_never_overlap,
                rwlock::readers_do_not_pass_a_waiting_writer,
                rwlock::a_writer_that_gives_up_lets_the_readers_in,
                rwlock::an_evicted_writer_lets_the_readers_in,
                rwlock::a_hundred_readers_enter_after_one_release,
                rwlock::a_downgrade_lets_readers_in_and_no_writer,
                rwlock::no_write_happens_during_a_downgrade,
                rwlock::downgraded_guard_can_be_lost_and_dropped,
                rwlock::tries_on_a_busy_lock_leave_nothing,
                rwlock::a_writer_whose_session_ends_in_the_queue_is_passed_over,
                rwlock::a_dead_writer_lets_the_readers_in,
                rwlock::dropped_readers_and_writers_leave_nothing,
                rwlock::primitives_of_one_name_are_independent,
                semaphore::granted_permits_never_exceed_the_limit,
                semaphore::permits_are_given_in_order,
                semaphore::a_waiter_for_many_permits_is_not_overtaken,
                semaphore::the_smaller_number_of_permits_counts,
                semaphore::set_permits_changes_the_limit_for_all_clients,
                semaphore::a_larger_number_of_permits_grants_no_extra_one,
                semaphore::late_permit_note_is_ignored,
                semaphore::tries_without_permits_leave_nothing,
                semaphore::concurrent_tries_get_all_free_permits,
                semaphore::a_dead_holders_permits_come_back,
                semaphore::a_dead_waiter_is_passed_over,
                semaphore::dropped_acquisitions_leave_nothing,
                semaphore::a_waiter_evicted_at_the_gate_acquires_no_permit,
                semaphore::acquire_waits_while_the_store_does_not_reply,
                semaphore::bad_numbers_of_permits_are_refused,
                election::candidates_lead_one_at_a_time_and_in_order,
                election::leader_is_returned_with_value_and_token,
                election::a_candidates_value_is_returned_unchanged,
                election::a_proclaimed_value_is_seen,
                election::a_dropped_proclaim_is_completed_or_never_begun,
                election::a_proclaim_is_never_ok_without_a_store,
                election::observers_see_the_present_leader_first,
                election::observers_never_return_an_earlier_leader,
                election::observers_outlive_their_sessions,
                election::observers_outlive_outages,
                election::a_dropped_campaign_leaves_nothing,
                election::a_leader_that_lost_its_session_is_notified,
                election::a_successor_of_a_busy_leader_leads_at_once,
                election::a_proclaim_without_its_key_is_refused,
                election::elections_and_mutexes_of_one_name_are_independent,
                election::bad_elections_are_refused_before_anything_is_sent,
                election::spawned_work_may_borrow_clone_or_own,
                election::a_run_that_is_cancelled_has_resigned,
                closures::work_of_every_primitive_is_followed_by_a_release,
                closures::work_of_every_primitive_is_dropped_at_loss,
                closures::dropped_calls_of_every_primitive_release,
                closures::spawned_calls_of_every_primitive_capture_any_value,
                service::a_job_runs_once_a_period,
                service::a_period_is_cleared_by_name_alone,
                service::notes_of_past_periods_are_deleted,
                service::get_returns_the_value_that_was_put,
                service::a_holder_takes_its_lock_again,
                service::a_leader_works_until_it_is_cancelled,
                service::all_locks_of_a_namespace_are_listed,
                service::a_client_that_shuts_down_lets_holders_finish,
                service::releases_under_way_end_before_the_shutdown,
                service::durability_matches_the_guarantees_of_the_store,
                view::a_request_reaches_every_holder_of_the_other_primitives,
                limits::every_primitive_has_a_longest_hold,
                limits::downgrade_does_not_extend_max_hold,
            }
            $crate::common::cases_for! { $harness, alone,
                costs::uncontended_lock_has_a_fixed_request_cost,
                costs::uncontended_primitives_have_a_fixed_request_cost,
                costs::try_lock_on_a_held_lock_creates_no_watch,
                costs::a_release_wakes_one_waiter,
                costs::idle_waiters_cost_nothing,
                costs::held_locks_share_one_keepalive,
                costs::held_locks_share_one_recheck,
                costs::a_lock_that_is_never_polled_costs_nothing,
                rwlock::a_writer_watches_one_reader_at_a_time,
                semaphore::released_permit_wakes_one_waiter,
            }
        }
    };
}

/// The cases of a mutex, which a client with a bridge also passes.
macro_rules! mutex_cases {
    ($then:ident { $($given:tt)* }) => {
        $crate::common::plain_mutex_cases! { $then { $($given)* } }
        $crate::common::$then! { $($given)*
            exclusion::waiters_are_granted_in_order,
            exclusion::waiters_are_granted_in_order_though_holders_are_lost,
            trying::try_lock_does_not_pass_waiters,
            unpolled::a_session_is_replaced_though_a_caller_is_not_polled,
            losing::holder_of_an_ended_session_is_notified,
            losing::waiters_of_an_ended_session_are_notified,
            losing::a_lost_session_is_replaced,
            losing::holder_of_a_deleted_key_is_notified_within_a_second,
            losing::an_evicted_waiter_is_never_granted,
            losing::an_operator_evicts_holders_and_waiters,
            losing::an_eviction_spares_a_later_hold,
            losing::an_evicted_waiter_of_one_client_is_never_granted,
            losing::a_crashed_waiter_is_passed_over,
            view::holder_is_returned_with_owner_and_token,
            view::a_lock_is_seen_free_held_and_free_again,
            view::queue_is_returned_in_order,
            view::a_waiter_sees_itself_move_up,
            view::a_watched_queue_outlives_its_session,
            view::a_request_reaches_the_holder_with_its_reason,
            view::a_request_does_not_reach_the_next_holder,
            view::a_request_needs_a_holder,
            view::release_requests_are_deleted_with_the_hold,
            guarded::puts_are_applied_and_overwrite,
            guarded::deletes_of_absent_keys_succeed,
            guarded::several_writes_are_applied_together,
            guarded::a_put_after_the_key_was_deleted_is_refused,
            guarded::a_put_after_the_session_ended_is_refused,
            guarded::a_put_by_a_holder_that_is_cut_off_ends_in_time,
            guarded::invalid_writes_are_refused_before_anything_is_sent,
            guarded::old_holders_never_write_over_their_successors,
            guarded::a_gate_refuses_the_tokens_of_old_holders,
            many::free_locks_are_taken_together_and_released_together,
            many::overlapping_sets_never_deadlock,
            many::lock_all_waits_for_the_held_lock,
            many::lock_all_timeout_gives_up_in_time,
            many::try_lock_all_takes_all_or_nothing,
            many::a_dropped_lock_all_leaves_nothing,
            many::lock_all_outlasts_a_store_that_does_not_answer,
            many::bad_lists_are_refused_before_anything_is_sent,
            many::loss_of_one_lock_notifies_the_holder_of_all,
            many::a_lock_lost_while_others_are_awaited_ends_the_wait,
            many::a_write_under_several_locks_needs_all_of_them,
            limits::work_that_hangs_keeps_a_lock_for_max_hold,
            limits::max_hold_works_while_the_caller_runtime_is_blocked,
            limits::bad_limits_are_refused_before_anything_is_sent,
            limits::a_handle_ends_with_its_guard,
            closing::the_last_clone_ends_the_session,
            closing::a_ttl_beyond_bounds_is_returned_as_granted,
        }
    };
}

/// The cases of a mutex that need neither a queue nor sessions. Redlock also passes them.
macro_rules! plain_mutex_cases {
    ($then:ident { $($given:tt)* }) => {
        $crate::common::$then! { $($given)*
            exclusion::fifty_contenders_never_overlap,
            exclusion::two_tasks_of_one_client_exclude_each_other,
            exclusion::tokens_rise_over_twenty_grants,
            exclusion::tokens_rise_across_successive_clients,
            exclusion::tokens_rise_after_the_store_removed_the_lock,
            exclusion::tokens_rise_in_the_order_of_grants,
            exclusion::a_write_that_outlives_its_lock_is_refused,
            names::names_that_begin_alike_are_independent,
            names::odd_names_work_and_are_independent,
            names::bad_names_are_refused_before_anything_is_sent,
            names::bad_options_are_refused_before_anything_is_sent,
            names::guards_return_their_name_and_key,
            trying::try_lock_takes_a_free_lock,
            trying::two_clients_alternate_by_try_lock,
            trying::try_lock_on_a_held_lock_leaves_nothing_at_any_time,
            trying::try_locks_at_once_grant_one_at_most,
            trying::tries_with_tiny_timeouts_leave_no_keys,
            trying::lock_timeout_gives_up_in_time,
            trying::lock_timeout_of_zero_is_a_try_lock,
            trying::lock_timeout_takes_a_lock_that_comes_free,
            trying::waiters_that_timed_out_are_passed_over,
            guards::unlock_grants_the_next_waiter,
            guards::a_dropped_guard_releases,
            guards::a_guard_dropped_outside_a_runtime_releases,
            guards::a_guard_dropped_by_a_panic_releases,
            guards::a_guard_moves_between_runtimes,
            guards::a_guard_outlives_its_runtime,
            guards::a_blocked_runtime_keeps_its_lock,
            guards::a_waiter_of_a_dropped_runtime_leaves_the_queue,
            guards::a_lock_is_kept_for_three_ttls,
            guards::run_returns_the_value,
            guards::work_is_done_under_a_lock_that_is_then_free,
            guards::a_client_returns_its_health,
            guards::run_drops_the_future_at_loss,
            cancelling::a_thousand_dropped_locks_leave_nothing,
            cancelling::a_lock_dropped_after_any_poll_leaves_nothing,
            cancelling::a_waiter_dropped_at_its_grant_passes_the_lock_on,
            cancelling::waiters_dropped_in_the_middle_do_not_wake_the_last,
            cancelling::waiters_of_one_client_dropped_in_the_middle_do_not_wake_the_last,
            cancelling::dropped_unlocks_still_release,
            unpolled::hundreds_of_joins_polled_once_block_no_other_call,
            unpolled::failed_openings_are_shared,
            unpolled::a_try_does_not_wait_for_a_crowd,
            losing::unlock_of_a_lost_guard_spares_the_successor,
            losing::cut_off_holder_is_notified_before_its_successor,
            losing::a_waiter_that_is_cut_off_is_notified,
            losing::a_crashed_holder_is_succeeded_in_time,
            losing::unlock_without_a_store_is_never_ok,
            losing::a_release_that_never_arrives_ends_with_the_ttl,
            losing::a_release_is_completed_when_the_store_is_back,
            closing::close_releases_everything,
            closing::close_ends_waiting,
            closing::closing_again_needs_a_confirmation,
            closing::a_guard_keeps_its_session_alive,
            closing::dead_endpoints_are_unavailable_in_time,
            closing::a_lazy_client_opens_its_session_when_it_is_needed,
            closing::the_granted_ttl_is_returned,
        }
    };
}

/// Emits the network cases, for stores with servers.
macro_rules! network_conformance {
    ($harness:ty) => {
        mod network {
            use super::*;

            $crate::common::network_cases! { cases_for { $harness, beside_others, } }
        }
    };
}

macro_rules! network_cases {
    ($then:ident { $($given:tt)* }) => {
        $crate::common::mutex_network_cases! { $then { $($given)* } }
        $crate::common::$then! { $($given)*
            network::late_join_after_a_downgrade_is_deleted,
            late::a_proclaim_that_arrives_late_is_refused,
        }
    };
}

/// The network cases of a mutex.
macro_rules! mutex_network_cases {
    ($then:ident { $($given:tt)* }) => {
        $crate::common::plain_mutex_network_cases! { $then { $($given)* } }
        $crate::common::$then! { $($given)*
            network::a_join_whose_reply_is_late_leaves_one_key,
            late::writes_of_a_holder_that_was_stopped_are_refused,
            late::a_write_that_arrives_late_is_refused,
            late::a_write_whose_reply_is_lost_is_unconfirmed,
            late::a_lock_all_whose_reply_is_lost_takes_all_or_leaves_nothing,
            network::release_before_the_watch_is_noticed_at_once,
            network::late_keepalive_replies_count_from_their_requests,
        }
    };
}

/// The network cases of a mutex that Redlock also passes.
macro_rules! plain_mutex_network_cases {
    ($then:ident { $($given:tt)* }) => {
        $crate::common::$then! { $($given)*
            network::a_join_whose_reply_is_lost_leaves_one_key,
            network::a_dropped_join_whose_reply_is_lost_leaves_nothing,
            network::a_release_whose_reply_is_lost_spares_the_successor,
            network::holder_cut_off_upstream_is_notified_before_its_successor,
            network::holder_cut_off_downstream_is_notified_before_its_successor,
            network::guard_of_a_paused_process_is_lost_on_resume,
            network::exiting_process_frees_its_lock,
            network::flapping_networks_never_make_two_holders,
            network::locks_and_waiters_outlive_their_connections,
            network::release_during_a_disconnect_is_noticed_after_reconnect,
            network::lost_event_is_recovered_by_the_recheck,
            network::a_holder_whose_event_was_lost_is_notified_by_the_recheck,
            network::a_slow_network_loses_nothing,
            network::one_refused_endpoint_does_no_harm,
            network::one_silent_endpoint_does_no_harm,
            network::a_lock_outlives_its_server_falling_silent,
            network::refused_endpoints_are_unavailable_at_once,
        }
    };
}

/// Emits the case of the blocking API.
macro_rules! blocking {
    ($harness:ty) => {
        mod blocking {
            use super::*;

            $crate::common::cases_for! { $harness, beside_others, blocking::threads_take_turns }
        }
    };
}

macro_rules! cases_for {
    ($harness:ty, $company:ident, $($module:ident::$case:ident),* $(,)?) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            use $crate::common::{$company, cases::$module::$case as case};
            $company::<$harness>(async |t| case(t).await).await;
        }
    )* };
}

/// Emits tests for the cases in the module `cases` of a store's own file.
macro_rules! own_cases {
    ($harness:ty, $company:ident, $($case:ident),* $(,)?) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            $crate::common::$company::<$harness>(cases::$case).await;
        }
    )* };
}

/// Emits tests for cases that take an argument. They start only if the harness's server is running.
/// With `beside_others`, they never overlap with cases that read shared counters.
macro_rules! cases_of {
    ($harness:ty, beside_others, $what:expr, $($module:ident::$case:ident),* $(,)?) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            let _company = $crate::common::company().await;
            drop(<$harness as $crate::common::Harness>::start().await);
            $crate::common::cases::$module::$case($what).await;
        }
    )* };
    ($harness:ty, $what:expr, $($module:ident::$case:ident),* $(,)?) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            drop(<$harness as $crate::common::Harness>::start().await);
            $crate::common::cases::$module::$case($what).await;
        }
    )* };
}

/// Emits tests for cases that get a database of their own.
macro_rules! database_cases {
    ($database:ty, $($module:ident::$case:ident),* $(,)?) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            let database = <$database as $crate::common::database::Database>::new().await;
            $crate::common::cases::$module::$case(&database).await;
            $crate::common::database::Database::end(database).await;
        }
    )* };
}

/// Emits the cases in which a server's clock is set.
macro_rules! clock_cases {
    ($harness:ty, $kind:expr) => {
        $crate::common::cases_of! { $harness, $kind,
            clocked::a_clock_that_is_set_forward_frees_nothing,
            clocked::a_clock_that_is_set_back_frees_nothing,
            clocked::a_dead_holder_is_removed_by_a_clock_that_was_set_back,
            clocked::newcomer_that_only_tries_takes_the_lock_of_a_dead_holder,
            clocked::clock_set_forward_keeps_a_cut_off_holders_session,
            clocked::session_begun_under_a_wrong_clock_keeps_its_ttl,
            clocked::session_begun_under_a_slightly_wrong_clock_keeps_its_ttl,
        }
    };
}

/// Emits the cases of user transactions on a database server.
macro_rules! transaction_cases {
    ($harness:ty, $database:ty) => {
        $crate::common::cases_for! { $harness, beside_others,
            checked::writes_of_a_stopped_holder_without_successor_are_refused,
            checked::expired_session_fails_the_check,
            checked::every_guard_can_be_checked,
            checked::a_transaction_that_has_checked_keeps_the_lock_until_it_ends,
            checked::a_transaction_that_has_checked_keeps_the_entry,
            checked::one_query_checks_several_locks,
            checked::guards_of_other_stores_are_refused_by_name,
            unlock_sql::commit_releases_the_lock_and_applies_the_writes,
            unlock_sql::waiters_of_the_same_client_are_served,
            unlock_sql::rolled_back_release_is_made_in_the_background,
            unlock_sql::unused_unlock_statement_is_followed_by_a_release,
            unlock_sql::release_that_is_dropped_early_waits_for_the_transaction,
            unlock_sql::statement_of_an_evicted_holder_affects_no_row,
            unlock_sql::each_driver_releases,
            unlock_sql::max_hold_ends_a_hold_that_no_transaction_releases,
            unlock_sql::release_with_unconfirmed_commit_is_completed,
            unlock_sql::unlock_statement_waits_for_checked_transactions,
            unlock_sql::concurrent_renewals_do_not_fail_the_unlock_statement,
        }

        $crate::common::database_cases! { $database,
            rows::versions_lose_nothing,
            rows::page_on_row_locks_matches_the_databases,
        }

        // The example is built only with SQLite.
        #[cfg(feature = "sqlite")]
        $crate::common::database_cases! { $database,
            accounts::money_is_lost_only_without_the_check,
        }
    };
}

pub(crate) use {
    blocking, cases_for, cases_of, clock_cases, conformance, database_cases, mutex_cases,
    mutex_network_cases, network_cases, network_conformance, own_cases, plain_mutex_cases,
    plain_mutex_network_cases, transaction_cases,
};
