//! The model of a ZooKeeper server passes every case, without a server.

use crate::common::{conformance, network_conformance, zookeeper::Model};

#[cfg(feature = "blocking")]
crate::common::blocking!(Model);
conformance!(Model);
network_conformance!(Model);

/// Emits ZooKeeper's own cases, in modules of the same names.
macro_rules! zookeeper_cases {
    ($($module:ident, $company:ident { $($case:ident),* $(,)? })*) => { $(
        mod $module {
            use crate::{
                common::{own_cases, zookeeper::Model},
                zookeeper::$module::cases,
            };

            own_cases! { Model, $company, $($case),* }
        }
    )* };
}

zookeeper_cases! {
    crowds, beside_others {
        readers_list_their_queue_together,
        waiters_with_long_paths_need_several_sessions,
    }
    directories, beside_others {
        reused_sequence_numbers_are_distinguished,
        a_late_release_spares_a_later_node_of_the_same_number,
        nodes_are_named_for_the_directory_they_are_in,
        a_number_that_is_taken_is_no_obstacle,
        a_directory_that_cannot_be_written_to_serves,
        a_join_whose_list_is_lost_leaves_one_node,
    }
    foreign, beside_others {
        distlock_waits_for_curator_and_kazoo,
        curator_waits_for_distlock,
        kazoo_waits_for_distlock,
        junk_is_passed_over,
        large_and_changing_foreign_nodes_are_waited_for,
        operators_find_the_owner_in_the_node,
        a_directory_that_vanishes_is_made_again,
        curator_and_kazoo_are_seen_in_the_queue,
        strangers_are_not_shared_with,
        a_node_written_over_before_its_owner_knows_it_is_removed,
    }
    handoffs, alone {
        hundreds_in_doubt_find_their_places,
        an_uncontended_lock_takes_a_round_trip_and_so_does_its_release,
        curator_in_between_has_its_turn,
        a_strangers_write_grants_nothing,
        a_handoff_between_processes_costs_the_same_however_long_the_queue,
    }
    late, beside_others {
        a_node_created_after_its_release_is_removed,
        a_node_created_after_its_downgrade_is_removed,
    }
    marks, beside_others {
        a_mark_of_a_former_directory_grants_nothing,
    }
    persistent, beside_others {
        a_persistent_node_named_like_a_waiter_holds_no_place,
        a_persistent_node_in_the_place_just_ahead_is_passed_over,
        junk_that_is_deleted_grants_nothing,
        a_waiter_under_the_name_of_junk_is_waited_for,
        junk_neither_reads_nor_writes_nor_has_a_permit,
        a_writer_does_not_wait_for_junk_that_looks_like_one_of_ours,
    }
    quota, beside_others {
        a_used_up_quota_prevents_no_release,
    }
    rights, beside_others {
        a_client_without_rights_is_denied_and_retries_slowly,
        a_client_whose_credentials_are_refused_is_denied,
        a_server_that_answers_credentials_first_is_used,
    }
    sessions, beside_others {
        a_holder_that_is_given_another_session_knows_before_its_successor,
        a_waiter_that_is_given_another_session_stands_in_one_place,
        a_session_that_is_granted_for_longer_is_given_up_as_before,
        a_session_that_is_taken_over_comes_back,
        writes_that_come_after_their_session_has_moved_are_made_once,
        a_node_of_an_old_session_is_not_taken_for_its_own,
        hundreds_of_readers_outlive_their_connection,
        hundreds_of_readers_behind_one_writer_share_its_watch,
        thousands_of_waiters_outlive_their_connections,
    }
    worn, beside_others {
        names_are_not_given_twice_where_numbers_are,
        order_holds_after_sequence_numbers_overflow,
    }
}
