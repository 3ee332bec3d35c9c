//! Members that are cut off from each other while their clients still reach them. Nothing else runs
//! meanwhile.

use std::time::{Duration, Instant};

use distlock_testkit::docker::Cut;

use crate::common::{
    Case, alone,
    case::{SOON, eventually, throughout, within},
    etcd::Etcd,
};

/// Waits until every member knows the leader again: what others ask of it until then fails.
async fn reunited(t: &Case) {
    for (_, member) in t.store.servers() {
        eventually(SOON * 2, "the member is back", async || t.store.serves(member).await).await;
    }
}

/// A client that knows only the member that is cut off: it has to know before the others give the
/// lock away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_on_a_member_that_is_cut_off_knows_before_its_successor() {
    alone::<Etcd>(async |t| {
        let member = t.store.network().1[0];
        let cut_off = t.builder_for(&format!("etcd://{member}")).session_ttl(t.store.min_ttl());
        let (holder, other) = (t.connect(cut_off).await, t.client().await);
        let ttl = holder.session_ttl();
        let guard = holder.mutex("cut").lock().await.unwrap();
        let waiter = t.enqueue(&other, "cut").await;
        let cut = Cut::off("etcd1").await;
        let told = tokio::spawn(async move {
            let reason = guard.lost().await;
            (Instant::now(), reason, guard.is_valid())
        });
        // An election, too, if the leader was cut off.
        let successor = waiter.result(ttl + Duration::from_secs(10)).await.expect("granted");
        let granted = Instant::now();
        assert!(told.is_finished(), "the successor is there and the holder was told nothing");
        let (told, reason, valid) = told.await.unwrap();
        println!("told {:?} before the grant: {reason}", granted - told);
        assert!(told < granted && !valid);
        successor.unlock().await.unwrap();
        cut.heal().await;
        reunited(t).await;
        let guard = within(SOON, "it serves again", holder.mutex("cut").lock()).await.unwrap();
        guard.unlock().await.unwrap();
    })
    .await;
}

/// A client that knows all members leaves the one that is cut off, and keeps its locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_outlives_each_member_being_cut_off() {
    alone::<Etcd>(async |t| {
        let client = t.connect(t.builder().session_ttl(Duration::from_secs(10))).await;
        let guard = client.mutex("kept").lock().await.unwrap();
        for member in ["etcd1", "etcd2", "etcd3"] {
            let cut = Cut::off(member).await;
            throughout(Duration::from_secs(3), "the lock is held", async || guard.is_valid()).await;
            let busy = within(SOON, "the others answer", client.mutex("kept").try_lock()).await;
            assert!(busy.expect("they are a majority").is_none());
            cut.heal().await;
            reunited(t).await;
        }
        assert!(guard.is_valid());
        guard.unlock().await.unwrap();
    })
    .await;
}
