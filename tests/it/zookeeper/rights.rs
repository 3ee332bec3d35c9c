//! Rights that are revoked while they are in use.

use std::{net::SocketAddr, time::Duration};

use distlock::{Client, Error, LostReason};
use distlock_testkit::{framing::Framing, proxy::Proxy};
use zookeeper_client::{Acl, AuthId, Permission};

use crate::{
    common::{
        Case, Harness, Members, SOON, Sessions, close, connected, contended, eventually, locked,
        own_cases, throughout, within,
        zookeeper::{Setup, ZooKeeper},
    },
    zookeeper::{forger::Forger, hasty::Hasty, own::OwnZooKeeper},
};

own_cases! { ZooKeeper, beside_others,
    a_client_without_rights_is_denied_and_retries_slowly,
    a_client_whose_credentials_are_refused_is_denied,
    a_server_that_answers_credentials_first_is_used,
}

pub(crate) mod cases {
    use super::*;

    /// An operator revokes all rights to a lock's directory, and grants them again.
    pub(crate) async fn a_client_without_rights_is_denied_and_retries_slowly<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let zookeeper = &t.store;
        let builder = || {
            t.builder()
                .request_timeout(Duration::from_secs(1))
                .recheck_interval(Duration::from_secs(1))
        };
        let (holder, other) = (t.connect(builder()).await, t.connect(builder()).await);
        let guard = holder.mutex("shut").lock().await.unwrap();
        let elsewhere = other.mutex("elsewhere").lock().await.unwrap();
        let waiter = t.enqueue(&other, "shut").await;
        let sessions =
            [zookeeper.session_of(guard.key()).await, zookeeper.session_of(&waiter.key).await];
        // The waiter's node exists before the client has read the directory.
        let waits = async || zookeeper.watches(guard.key(), sessions[1]).await;
        eventually(SOON, "the waiter watches the holder's node", waits).await;
        let directory = guard.key().rsplit_once('/').unwrap().0.to_owned();
        let shut = [Acl::new(Permission::ADMIN, AuthId::anyone())];
        zookeeper.client().set_acl(&directory, &shut, None).await.unwrap();

        let before = t.cost(&sessions).await;
        for outcome in
            [other.mutex("shut").lock().await.map(Some), other.mutex("shut").try_lock().await]
        {
            let error = outcome.unwrap_err();
            assert!(matches!(error, Error::Denied { .. }), "{error:?}");
        }
        assert!(guard.is_valid() && elsewhere.is_valid(), "held locks are lost");
        let error = within(SOON, "the release fails", guard.unlock()).await.unwrap_err();
        assert!(matches!(error, Error::Denied { .. }), "{error:?}");
        // A waiter that watches already does not need the directory.
        let as_before = async || elsewhere.is_valid() && waiter.waits();
        throughout(Duration::from_secs(3), "the other lock is held", as_before).await;
        let spent = t.cost(&sessions).await - before;
        // The client retries a deletion, in the end at most about every half second.
        assert!(spent.requests < 60, "{spent:?}");

        let open = [Acl::new(Permission::ALL, AuthId::anyone())];
        zookeeper.client().set_acl(&directory, &open, None).await.unwrap();
        waiter.served().await;
        eventually(SOON, "the pending node is deleted", async || {
            t.keys().await == [elsewhere.key()]
        })
        .await;
        holder.mutex("shut").lock().await.unwrap().unlock().await.unwrap();
        elsewhere.unlock().await.unwrap();
    }

    /// The client reconnects, and its password is refused.
    pub(crate) async fn a_client_whose_credentials_are_refused_is_denied<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let (url, server) = (t.store.url(), t.store.network().1[0]);
        let forger = Forger::start(server, |mut packet| {
            if packet.connection > 0 {
                packet.garble_credentials();
            }
        })
        .await;
        let proxy = Proxy::start(forger.address, Framing::Jute).await;
        let namespace = format!("/t-{:016x}", fastrand::u64(..));
        let builder = |url: &str| {
            let ttl = Duration::from_secs(4);
            Client::builder(url).namespace(&namespace).credentials("app", "apppw").session_ttl(ttl)
        };
        let other = builder(&url).connect().await.unwrap();
        let client = builder(&format!("zk://{}", proxy.address)).connect().await.unwrap();
        let guard = client.mutex("held").lock().await.unwrap();
        let (theirs, waiter) = contended(&other, &client, "awaited").await;
        waiter.waits_throughout(Duration::from_millis(300), "the waiter waits").await;
        assert!(other.mutex("held").try_lock().await.unwrap().is_none());

        proxy.hang_up();
        let reason = within(SOON, "the holder is notified", guard.lost()).await;
        assert!(
            matches!(reason, LostReason::SessionExpired | LostReason::DeadlinePassed),
            "{reason}"
        );
        let error = waiter.result(SOON).await.unwrap_err();
        assert!(matches!(error, Error::SessionLost { .. }), "{error:?}");
        let error =
            within(SOON, "the lock is refused", client.mutex("new").lock()).await.unwrap_err();
        assert!(matches!(error, Error::Denied { .. }), "{error:?}");
        assert!(!error.is_retryable());
        // Without a request the client does not reconnect.
        let connections = forger.connections();
        let _ = locked(&other, "held").await.unlock().await;
        assert!(!guard.is_valid());
        assert!(forger.connections() <= connections + 1, "{} connections", forger.connections());
        assert!(forger.connections() < 12, "{} connections", forger.connections());
        theirs.unlock().await.unwrap();
        other.close().await.unwrap();
        let _ = client.close().await;
    }

    /// Every reply is early, which happens on one server in five by chance.
    pub(crate) async fn a_server_that_answers_credentials_first_is_used<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let hasty = Hasty::start(t.store.network().1[0]).await;
        knows_its_user(hasty.address).await;
    }
}

/// The server ends a session whose first request has no credentials.
#[tokio::test]
async fn a_server_that_insists_on_credentials_is_used() {
    let enforced = "-Dzookeeper.enforce.auth.enabled=true -Dzookeeper.enforce.auth.schemes=digest";
    let server = OwnZooKeeper::start(enforced).await;
    knows_its_user(server.address).await;
}

/// One user connects and holds a lock, which another user is denied.
async fn knows_its_user(server: SocketAddr) {
    let namespace = format!("/t-{:016x}", fastrand::u64(..));
    let builder = Client::builder(format!("zk://{server}")).namespace(namespace);
    let client = connected(builder.clone().credentials("app", "apppw")).await;
    let guard = locked(&client, "a").await;
    let other = connected(builder.credentials("other", "otherpw")).await;
    let error = other.mutex("a").try_lock().await.unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    guard.unlock().await.unwrap();
    close([client, other]).await;
}
