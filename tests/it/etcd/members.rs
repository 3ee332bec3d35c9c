//! Members that are cut off from each other while their clients still reach them. These tests run
//! alone.

use std::time::Duration;

use distlock_testkit::docker::Cut;

use crate::common::{
    Case, Harness, Members, SOON, etcd::Etcd, eventually, loss, own_cases, precedes_grant,
    take_turn, throughout, within,
};

/// Waits until every member knows the leader again: requests to it fail until then.
async fn reunited(t: &Case<Etcd>) {
    for (_, member) in t.store.servers() {
        eventually(SOON * 2, "the member is back", async || t.store.serves(member).await).await;
    }
}

own_cases! { Etcd, alone,
    a_holder_on_a_member_that_is_cut_off_knows_before_its_successor,
    a_lock_outlives_each_member_being_cut_off,
}

mod cases {
    use super::*;

    /// A client that knows only the cut-off member must stop before the other members grant the
    /// lock.
    pub(super) async fn a_holder_on_a_member_that_is_cut_off_knows_before_its_successor(
        t: &Case<Etcd>,
    ) {
        let member = t.store.network().1[0];
        let cut_off = t.builder_for(&format!("etcd://{member}")).session_ttl(t.store.min_ttl());
        let (holder, other) = (t.connect(cut_off).await, t.client().await);
        let ttl = holder.session_ttl();
        let (guard, waiter) = t.contended(&holder, &other, "cut").await;
        let cut = Cut::off("etcd1").await;
        let loss = loss(guard);
        // If the leader was cut off, an election takes time, too.
        let successor = waiter.result(ttl + Duration::from_secs(10)).await.expect("granted");
        precedes_grant(loss).await;
        successor.unlock().await.unwrap();
        cut.heal().await;
        reunited(t).await;
        take_turn(&holder, "cut").await;
    }

    /// A client that knows all members leaves the cut-off one and keeps its locks.
    pub(super) async fn a_lock_outlives_each_member_being_cut_off(t: &Case<Etcd>) {
        let client = t.connect(t.builder().session_ttl(Duration::from_secs(10))).await;
        let guard = client.mutex("kept").lock().await.unwrap();
        for member in ["etcd1", "etcd2", "etcd3"] {
            let cut = Cut::off(member).await;
            throughout(Duration::from_secs(3), "the lock is held", async || guard.is_valid()).await;
            let busy =
                within(SOON, "the other members reply", client.mutex("kept").try_lock()).await;
            assert!(busy.expect("the other members are a majority").is_none());
            cut.heal().await;
            reunited(t).await;
        }
        assert!(guard.is_valid());
        guard.unlock().await.unwrap();
    }
}
