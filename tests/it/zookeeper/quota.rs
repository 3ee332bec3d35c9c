//! Quotas that servers of 3.7 and later enforce.

use std::time::Duration;

use zookeeper_client::{Acls, CreateMode};

use crate::{
    common::{
        Case, SOON, Waiter, contended, eventually, handover, own_cases, within,
        zookeeper::{Setup, ZooKeeper},
    },
    zookeeper::own::{ENFORCE_QUOTAS, OwnZooKeeper},
};

own_cases! { ZooKeeper, beside_others,
    a_used_up_quota_prevents_no_release,
}

pub(crate) mod cases {
    use super::*;

    /// Other data of the application uses up its quota. From then on the server refuses every
    /// change of a node's length, except deletions.
    pub(crate) async fn a_used_up_quota_prevents_no_release<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let server = OwnZooKeeper::like(t, ENFORCE_QUOTAS).await;
        let raw = server.raw().await;
        let lasting = CreateMode::Persistent.with_acls(Acls::anyone_all());
        raw.mkdir("/app/locks", &lasting).await.unwrap();
        let [one, two, three] = [
            server.client("/app/locks").await,
            server.client("/app/locks").await,
            server.client("/app/locks").await,
        ];
        let wait_for_nodes = async |count: usize| {
            let counted = async || raw.list_children("/app/locks/q").await.unwrap().len() == count;
            eventually(SOON, "the nodes exist", counted).await;
        };
        // A holder that joined behind others leaves a release marker.
        let (first, second) = contended(&one, &two, "q").await;
        wait_for_nodes(2).await;
        let second = handover(first, second).await;
        // The second holder knows no marker, so it writes none.
        let third = Waiter::of(&three, "q");
        wait_for_nodes(2).await;
        assert!(raw.get_data("/app/locks/q").await.unwrap().0.is_empty());
        raw.mkdir("/zookeeper/quota/app", &lasting).await.unwrap();
        let limit = b"count=-1,bytes=-1=;byteHardLimit=100;countHardLimit=-1";
        raw.create("/zookeeper/quota/app/zookeeper_limits", limit, &lasting).await.unwrap();
        let used = b"count=0,bytes=0";
        raw.create("/zookeeper/quota/app/zookeeper_stats", used, &lasting).await.unwrap();
        let refused = raw.set_data("/app/locks/q", b"x", None).await;
        assert_eq!(refused, Err(zookeeper_client::Error::QuotaExceeded));

        within(Duration::from_secs(5), "the lock is released", second.unlock()).await.unwrap();
        let third = third.granted().await;
        within(Duration::from_secs(5), "the lock is released", third.unlock()).await.unwrap();
    }
}
