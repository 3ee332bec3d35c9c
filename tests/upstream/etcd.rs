//! etcd-client 0.21.1; lines below `src/` are those of
//! <https://github.com/etcdv3/etcd-client/tree/v0.21.1>.

use std::net::SocketAddr;

use distlock_testkit::{backend::Backend, servers::endpoints};
use etcd_client::Client;

use crate::assert_defect;

async fn connect(endpoints: &[SocketAddr]) -> Client {
    let addresses: Vec<_> = endpoints.iter().map(|endpoint| format!("http://{endpoint}")).collect();
    Client::connect(addresses, None).await.expect("a client")
}

/// `LeaseKeeper::keep_alive` promises to receive a response, and only puts a request into a queue:
/// src/rpc/lease.rs:560. It says Ok of a lease that is gone.
#[tokio::test]
async fn a_revoked_lease_is_kept_alive() {
    let mut client = connect(&endpoints(&Backend::Etcd.url()).await).await;
    let lease = client.lease_grant(60, None).await.expect("etcd answers").id();
    let (mut keeper, mut answers) = client.lease_keep_alive(lease).await.unwrap();
    client.lease_revoke(lease).await.unwrap();
    let kept = keeper.keep_alive().await.is_ok();
    assert_defect(kept, "src/backend/etcd/mod.rs: a stream for each `keep_alive`");
    let answer = answers.message().await.unwrap().expect("the stream is open");
    assert_eq!(answer.ttl(), 0, "the server knew");
}

/// An endpoint that refuses connections gets its share of the requests, and these fail although the
/// others would serve them: src/client.rs:123. That is tonic's balancer, of 0.14.9, to which each
/// endpoint has the load 0 (src/transport/channel/service/connection.rs:166) and one that failed is
/// ready (`reconnect.rs:129` beside it): <https://github.com/grpc/grpc-rust/issues/2839>.
#[tokio::test]
async fn one_dead_endpoint_fails_requests() {
    let mut endpoints = endpoints(&Backend::Etcd.url()).await;
    endpoints.truncate(2);
    // Bound but not listening: connections are refused, and nobody else gets the port.
    let dead = tokio::net::TcpSocket::new_v4().unwrap();
    dead.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    endpoints.push(dead.local_addr().unwrap());
    let client = connect(&endpoints).await;
    let (mut served, mut failed) = (false, false);
    // About every fifth fails. That none of them does is a chance of 1 in 10^19.
    for _ in 0..200 {
        match client.kv_client().get("any", None).await {
            Ok(_) => served = true,
            Err(_) => failed = true,
        }
        if served && failed {
            break;
        }
    }
    assert!(served, "the others are there");
    assert_defect(failed, "src/backend/etcd/pool.rs: the choice of an endpoint");
}
