//! etcd-client 0.21.1; lines below `src/` are those of <https://github.com/etcdv3/etcd-client/tree/v0.21.1>.

use std::net::SocketAddr;

use etcd_client::Client;

use crate::{assert_defect, servers};

async fn endpoints() -> Vec<SocketAddr> {
    let url = servers::url("DISTLOCK_ETCD_URL", "etcd://127.0.0.1:23791,127.0.0.1:23792,127.0.0.1:23793");
    servers::endpoints(&url).await
}

async fn connect(endpoints: &[SocketAddr]) -> Client {
    let addresses: Vec<_> = endpoints.iter().map(|endpoint| format!("http://{endpoint}")).collect();
    Client::connect(addresses, None).await.expect("a client")
}

/// `LeaseKeeper::keep_alive` promises to receive a response, and only puts a request into a queue: src/rpc/lease.rs:560. It says Ok of a lease that is gone.
#[tokio::test]
async fn a_revoked_lease_is_kept_alive() {
    let mut client = connect(&endpoints().await).await;
    let lease = client.lease_grant(60, None).await.expect("etcd answers").id();
    let (mut keeper, mut answers) = client.lease_keep_alive(lease).await.unwrap();
    client.lease_revoke(lease).await.unwrap();
    let kept = keeper.keep_alive().await.is_ok();
    let answer = answers.message().await.unwrap().expect("the stream is open");
    assert_eq!(answer.ttl(), 0, "the server knew");
    assert_defect(kept, "src/backend/etcd/mod.rs: `keep_alive`, which opens a stream for each keepalive");
}

/// An endpoint that cannot be reached gets its share of the requests, and each of them fails although the others would serve it. The requests are spread at random
/// by tonic's balancer, to which every endpoint has the load 0 and one without a connection is ready:
/// <https://github.com/grpc/grpc-rust/blob/v0.14.6/tonic/src/transport/channel/service/connection.rs#L162>, `reconnect.rs` beside it.
#[tokio::test]
async fn one_dead_endpoint_fails_requests() {
    let mut endpoints = endpoints().await;
    endpoints.truncate(2);
    // Bound but not listening: connections are refused, and nobody else gets the port.
    let dead = tokio::net::TcpSocket::new_v4().unwrap();
    dead.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    endpoints.push(dead.local_addr().unwrap());
    let client = connect(&endpoints).await;
    let (mut served, mut failed) = (0, 0);
    // About every fifth fails. That none of them does is a chance of 1 in 10^19.
    while served < 200 && (served == 0 || failed == 0) {
        match client.kv_client().get("any", None).await {
            Ok(_) => served += 1,
            Err(_) => failed += 1,
        }
    }
    assert_defect(failed > 0, "src/backend/etcd/pool.rs, which picks the endpoint itself");
}
