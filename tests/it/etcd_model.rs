//! The model of an etcd server passes every case with the real client and adapter, without a
//! server.

use distlock_etcd_model::{Front, Settings};

use crate::common::{cases_for, conformance, etcd::Model, network_conformance};

#[cfg(feature = "blocking")]
crate::common::blocking!(Model);
conformance!(Model);
network_conformance!(Model);

mod costs {
    use super::*;

    cases_for! { Model, alone, costs::handover_within_one_client_sends_no_extra_read }
}

mod foreign {
    use super::*;
    use crate::etcd::foreign::{cases, foreign_cases};

    foreign_cases!(Model);
}

mod release_markers {
    use super::*;
    use crate::etcd::release_markers::{cases, release_marker_cases};

    release_marker_cases!(Model);
}

mod turns {
    use super::*;
    use crate::etcd::turns::{cases, turn_cases};

    turn_cases!(Model);
}

mod answers {
    use super::*;
    use crate::etcd::answers::{answer_cases, cases, too_many_locks_are_taken_one_by_one};

    answer_cases!(Model);

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn locks_that_are_too_many_for_one_transaction_are_taken_one_by_one() {
        let settings = Settings { max_txn_ops: 8, ..Settings::default() };
        let server = Front::start(settings).expect("a port");
        too_many_locks_are_taken_one_by_one(server.address).await;
    }
}

mod proxied {
    use super::*;
    use crate::etcd::proxied::waiters_and_holders_are_notified;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn waiters_and_holders_are_notified_if_the_server_numbers_watches() {
        let settings = Settings { numbers_watches: true, ..Settings::default() };
        let server = Front::start(settings).expect("a port");
        waiters_and_holders_are_notified(server.address).await;
    }
}

mod full {
    use etcd_client::{AlarmAction, AlarmType, Client};

    use super::*;
    use crate::etcd::full::refuses_locks_and_takes_releases;

    /// Any client may raise the alarm.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_full_etcd_refuses_locks_and_takes_releases() {
        let server = Front::start(Settings::default()).expect("a port");
        let set = async |raw: &mut Client, action| {
            raw.alarm(action, AlarmType::Nospace, None).await.expect("etcd replies");
        };
        let fill = async |raw: &mut Client| set(raw, AlarmAction::Activate).await;
        let make_room = async |raw: &mut Client| set(raw, AlarmAction::Deactivate).await;
        refuses_locks_and_takes_releases(server.address, fill, make_room).await;
    }
}

mod hung {
    use super::*;
    use crate::etcd::hung::waiters_and_holders_leave;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn waiters_and_holders_leave_a_member_whose_disk_hangs() {
        let leader = Front::start(Settings::default()).expect("a port");
        let follower = leader.start_member().expect("a port");
        let members = [leader.address, follower.address];
        waiters_and_holders_leave(&members, [0, 1], async || follower.hang()).await;
    }
}
