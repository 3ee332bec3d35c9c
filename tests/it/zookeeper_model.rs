//! The model of a ZooKeeper server passes every case, without a server.

use std::time::Duration;

use distlock_zookeeper_model::Front;

use crate::common::{
    SOON, builder, company, conformance, eventually, network_conformance, zookeeper::Model,
};

#[cfg(feature = "blocking")]
crate::common::blocking!(Model);
conformance!(Model);
network_conformance!(Model);

/// Servers with a short tick grant less than a second. The client asks for a second first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_shorter_than_a_second_are_granted() {
    let _company = company().await;
    let server = Front::start().expect("a port");
    server.with(|model| model.set_tick(200));
    let url = format!("zk://{}", server.address);
    for (asked, granted) in [(2000, 2000), (900, 900), (500, 500), (100, 400)] {
        let mut client = None;
        // On a busy machine, a reply may come too late for such a short TTL.
        eventually(SOON, "a session is opened", async || {
            let builder = builder(&url).session_ttl(Duration::from_millis(asked));
            client = builder.connect().await.ok();
            client.is_some()
        })
        .await;
        let ttl = client.expect("just seen").session_ttl();
        assert_eq!(ttl, Duration::from_millis(granted), "asked for {asked} ms");
    }
}

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
        a_taken_sequence_number_does_not_block_a_join,
        locks_work_in_an_unwritable_directory,
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
        foreign_entries_are_exclusive,
        a_node_overwritten_before_its_create_reply_is_removed,
    }
    handoffs, alone {
        hundreds_of_unconfirmed_joins_find_their_nodes,
        an_uncontended_lock_takes_a_round_trip_and_so_does_its_release,
        curator_in_between_has_its_turn,
        a_foreign_write_grants_nothing,
        handover_cost_is_independent_of_queue_length,
    }
    late, beside_others {
        a_node_created_after_its_release_is_removed,
        a_node_created_after_its_downgrade_is_removed,
    }
    marks, beside_others {
        a_release_marker_of_a_former_directory_grants_nothing,
    }
    persistent, beside_others {
        a_persistent_node_named_like_a_waiter_holds_no_place,
        a_persistent_node_in_the_place_just_ahead_is_passed_over,
        junk_that_is_deleted_grants_nothing,
        a_waiter_under_the_name_of_junk_is_waited_for,
        junk_counts_neither_as_reader_nor_writer_nor_permit,
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
        a_waiter_with_a_replaced_session_has_one_node,
        a_longer_session_grant_does_not_extend_the_deadline,
        a_client_recovers_a_session_that_was_taken_over,
        writes_delayed_past_a_session_move_apply_once,
        a_node_of_an_old_session_is_not_taken_for_its_own,
        hundreds_of_readers_outlive_their_connection,
        hundreds_of_readers_behind_one_writer_share_its_watch,
        hundreds_of_semaphores_outlive_their_connection,
        thousands_of_waiters_outlive_their_connections,
    }
    worn, beside_others {
        names_stay_unique_after_sequence_numbers_overflow,
        order_holds_after_sequence_numbers_overflow,
    }
}
