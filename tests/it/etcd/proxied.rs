//! etcd's grpc-proxy between a client and the servers: it replies on their behalf.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use distlock::{Client, LostReason};
use distlock_testkit::{
    docker::{OwnEtcd, OwnServer},
    proxy::{Mode, Proxy},
};

use super::hung::{free_ports, raw, serves};
use crate::common::{
    SOON, Waiter, close, connected, contended, loss, precedes_grant, queue_of, within,
};

/// Starts `etcd grpc-proxy` in front of `servers`.
async fn grpc_proxy(servers: &[&Proxy]) -> (OwnServer, SocketAddr) {
    let port = free_ports(1)[0];
    let address: SocketAddr = ([127, 0, 0, 1], port).into();
    let servers: Vec<_> = servers.iter().map(|server| server.address.to_string()).collect();
    let arguments = [
        "grpc-proxy",
        "start",
        &format!("--endpoints={}", servers.join(",")),
        &format!("--listen-addr={address}"),
        "--advertise-client-url=",
        "--data-dir=/tmp/proxy",
    ];
    let run = ["--network=host", "--entrypoint=etcd"];
    let proxy = OwnServer::start("etcd1", &run, &arguments).await;
    serves(address).await;
    (proxy, address)
}

/// By this difference the client distinguishes members from proxies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_member_replies_with_ttl_zero_for_an_unknown_lease() {
    let etcd = OwnEtcd::start(&[]).await;
    let way = Proxy::start(etcd.address, None).await;
    serves(etcd.address).await;
    let (_proxy, address) = grpc_proxy(&[&way]).await;
    for (address, expected) in [(etcd.address, 0), (address, -1)] {
        let mut leases = raw(address).await.lease_client();
        let lease = leases.grant(3, None).await.expect("granted").id();
        let (mut keeper, mut replies) = leases.keep_alive(lease).await.expect("renewed");
        leases.revoke(lease).await.expect("revoked");
        keeper.keep_alive().await.expect("sent");
        let reply = within(SOON, "a reply", replies.message()).await.expect("no error");
        assert_eq!(reply.map(|reply| reply.ttl()), Some(expected), "{address}");
        // No lease has the id 0, which the client sends for this purpose.
        let refused = leases.keep_alive(0).await.map(drop).expect_err("no lease");
        assert!(matches!(refused, etcd_client::Error::LeaseKeepAliveError(_)), "{refused}");
    }
}

/// The proxy does not use the ids that the client requests for its watches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_and_holders_behind_a_grpc_proxy_are_notified() {
    let etcd = OwnEtcd::start(&[]).await;
    let way = Proxy::start(etcd.address, None).await;
    serves(etcd.address).await;
    let (_proxy, address) = grpc_proxy(&[&way]).await;
    waiters_and_holders_are_notified(address).await;
}

/// Requests time out and rechecks begin after the time limits, so only the right event is in time.
pub(crate) async fn waiters_and_holders_are_notified(address: SocketAddr) {
    let builder = Client::builder(format!("etcd://{address}"))
        .session_ttl(SOON * 6)
        .request_timeout(SOON * 2)
        .recheck_interval(SOON * 6);
    let (holder, waiter) = (connected(builder.clone()).await, connected(builder).await);
    let mut waiting = Vec::new();
    for name in ["a", "b", "c"] {
        waiting.push(contended(&holder, &waiter, name).await);
        queue_of(&holder, name, 2).await;
    }
    // The order differs from that of the watches.
    for (guard, waiter) in waiting.into_iter().rev() {
        guard.unlock().await.expect("released");
        waiter.served().await;
    }
    let evicted = holder.mutex("a").lock().await.expect("free");
    let deleted = raw(address).await.kv_client().delete(evicted.key(), None).await;
    assert_eq!(deleted.expect("deleted").deleted(), 1);
    let reason = within(SOON, "the holder is notified", evicted.lost()).await;
    assert_eq!(reason, LostReason::Evicted);
    drop(evicted);
    close([holder, waiter]).await;
}

async fn lease_of(etcd: SocketAddr, key: &str) -> i64 {
    let found = raw(etcd).await.kv_client().get(key, None).await.expect("a reply");
    found.kvs().first().expect("the key").lease()
}

/// Stalls the proxy's keepalive stream. The stream uses one of the two ways, other requests use
/// both.
async fn stop_renewals(ways: &[Proxy; 2], etcd: SocketAddr, lease: i64) {
    let mut leases = raw(etcd).await.lease_client();
    for way in ways {
        way.set(Mode::Blackhole);
        let started = Instant::now();
        let (mut left, mut renewed) = (i64::MAX, false);
        while !renewed && started.elapsed() < Duration::from_secs(8) {
            let now = leases.time_to_live(lease, None).await.expect("a reply").ttl();
            renewed = std::mem::replace(&mut left, now) < now;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // The proxy renews a lease of 15 s every 5 s.
        if !renewed {
            return;
        }
        way.set(Mode::Pass);
    }
    panic!("both ways stall, and the lease is still renewed");
}

/// While its keepalive stream stalls, the proxy replies with the remaining time of the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_behind_a_grpc_proxy_knows_before_its_successor() {
    let etcd = OwnEtcd::start(&[]).await;
    let ways = [Proxy::start(etcd.address, None).await, Proxy::start(etcd.address, None).await];
    serves(etcd.address).await;
    let (_proxy, address) = grpc_proxy(&[&ways[0], &ways[1]]).await;
    let ttl = Duration::from_secs(15);
    let connect = async |address: SocketAddr| {
        let url = format!("etcd://{address}");
        let builder = Client::builder(&url).session_ttl(ttl);
        builder.request_timeout(Duration::from_secs(2)).connect().await.expect("a client connects")
    };
    let (holder, other) = (connect(address).await, connect(etcd.address).await);
    let guard = holder.mutex("a").lock().await.expect("free");
    let waiting = Waiter::of(&other, "a");
    // Renewals pass.
    waiting.waits_behind(&guard, ttl).await;

    let lease = lease_of(etcd.address, guard.key()).await;
    stop_renewals(&ways, etcd.address, lease).await;
    let loss = loss(guard);
    let successor = waiting.result(ttl * 3).await.expect("granted");
    let reason = precedes_grant(loss).await.reason;
    assert!(matches!(reason, LostReason::DeadlinePassed | LostReason::SessionExpired), "{reason}");
    successor.unlock().await.expect("released");
    ways.iter().for_each(|way| way.set(Mode::Pass));
    for client in [holder, other] {
        let _ = tokio::time::timeout(SOON, client.close()).await;
    }
}
