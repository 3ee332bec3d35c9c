//! Release markers: the name of the last holder that left, stored in its lock's directory. The
//! server may unexpectedly assign a name again.

use std::time::Duration;

use distlock_testkit::proxy::Mode;
use zookeeper_client::{Acls, CreateMode};

use crate::{
    common::{
        Case, SOON, eventually, handover, own_cases, release_both, throughout,
        zookeeper::{Setup, ZooKeeper},
    },
    zookeeper::directories::{delete_all, directory_of, number},
};

own_cases! { ZooKeeper, beside_others,
    a_release_marker_of_a_former_directory_grants_nothing,
}

pub(crate) mod cases {
    use super::*;

    /// The directory is removed and created again, and its numbers restart. A client that knows the
    /// former directory names its node after it, with the number of its last holder. It also writes
    /// that holder's marker into the new directory. When the client abandons that node, the
    /// deletion looks like the release of a holder.
    pub(crate) async fn a_release_marker_of_a_former_directory_grants_nothing<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let (zookeeper, proxies) = (&t.store, t.proxies().await);
        let [one, two, three] = t.clients().await;
        // The client tolerates silence for a quarter of this TTL.
        let late = t.builder_for(&proxies.url()).session_ttl(Duration::from_secs(20));
        let late = t.connect(late).await;
        let mut held = one.mutex("former").lock().await.unwrap();
        for client in [&late, &one, &late] {
            let next = t.enqueue(client, "former").await;
            held = handover(held, next).await;
        }
        let (former, directory) = (held.key().to_owned(), directory_of(held.key()).to_owned());
        held.unlock().await.unwrap();
        let raw = zookeeper.client();
        delete_all(zookeeper, &directory).await;

        let holder = two.mutex("former").lock().await.unwrap();
        let node = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        loop {
            let (_, next) = raw.create(&format!("{directory}/x-"), b"", &node).await.unwrap();
            raw.delete(&format!("{directory}/x-{next}"), None).await.unwrap();
            if next.into_i64() + 1 == number(&former).parse::<i64>().unwrap() {
                break;
            }
        }
        proxies.set(&Mode::BlackholeToClient);
        let stale = t.enqueue(&late, "former").await;
        assert_eq!(stale.key, former, "the node has the name of the former holder");
        let waiter = t.enqueue(&three, "former").await;
        let again = t.enqueue(&late, "former").await;
        let name = former.rsplit_once('/').unwrap().1;
        assert_eq!(
            zookeeper.get(&directory).await.0,
            name.as_bytes(),
            "the former marker is stored"
        );
        proxies.set(&Mode::Pass);
        eventually(SOON, "the client abandons the name", async || {
            !t.keys().await.iter().any(|key| [&stale.key, &again.key].contains(&key))
        })
        .await;
        throughout(Duration::from_secs(1), "only the holder is granted", async || {
            holder.is_valid() && waiter.waits() && stale.waits() && again.waits()
        })
        .await;
        release_both(holder, waiter).await;
        // The two waiters may have joined again in either order.
        tokio::join!(stale.served(), again.served());
    }
}
