//! etcd-client 0.21.1; lines below `src/` are those of
//! <https://github.com/etcdv3/etcd-client/tree/v0.21.1>.

use std::net::SocketAddr;

use distlock_testkit::{backend::Backend, docker::OwnEtcd, servers::endpoints};
use etcd_client::{Client, ConnectOptions};

use crate::assert_defect;

async fn connect(endpoints: &[SocketAddr]) -> Client {
    let addresses: Vec<_> = endpoints.iter().map(|endpoint| format!("http://{endpoint}")).collect();
    Client::connect(addresses, None).await.expect("a client")
}

/// `LeaseKeeper::keep_alive` promises to receive a response, but only queues a request:
/// src/rpc/lease.rs:560. It returns Ok for a revoked lease.
#[tokio::test]
async fn a_revoked_lease_is_kept_alive() {
    let mut client = connect(&endpoints(&Backend::Etcd.url()).await).await;
    let lease = client.lease_grant(60, None).await.expect("etcd replies").id();
    let (mut keeper, mut answers) = client.lease_keep_alive(lease).await.unwrap();
    client.lease_revoke(lease).await.unwrap();
    let kept = keeper.keep_alive().await.is_ok();
    assert_defect(kept, "src/backend/etcd/mod.rs: a stream for each `keep_alive`");
    let answer = answers.message().await.unwrap().expect("the stream is open");
    assert_eq!(answer.ttl(), 0, "the server knew");
}

/// An endpoint that refuses connections gets its share of the requests. They fail although the
/// other endpoints would serve them: src/client.rs:123. The reason is the balancer of tonic 0.14.9,
/// in which each endpoint has the load 0 (src/transport/channel/service/connection.rs:166) and a
/// failed one is ready (`reconnect.rs:129` in the same folder):
/// <https://github.com/grpc/grpc-rust/issues/2839>.
#[tokio::test]
async fn one_dead_endpoint_fails_requests() {
    let mut endpoints = endpoints(&Backend::Etcd.url()).await;
    endpoints.truncate(2);
    // Bound but not listening: connections are refused, and no other process gets the port.
    let dead = tokio::net::TcpSocket::new_v4().unwrap();
    dead.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    endpoints.push(dead.local_addr().unwrap());
    let client = connect(&endpoints).await;
    let (mut served, mut failed) = (false, false);
    // About every fifth request fails. The chance that none does is 1 in 10^19.
    for _ in 0..200 {
        match client.kv_client().get("any", None).await {
            Ok(_) => served = true,
            Err(_) => failed = true,
        }
        if served && failed {
            break;
        }
    }
    assert!(served, "the other endpoints serve");
    assert_defect(failed, "src/backend/etcd/pool.rs: the choice of an endpoint");
}

/// A token of the kind `jwt` expires with every change of any user or role. The crate attributes
/// the error to the request: src/caller.rs:221 requests a new token only if the server does not
/// know the old one. Go's client does so for both:
/// <https://github.com/etcd-io/etcd/blob/v3.5.16/client/v3/retry_interceptor.go#L163>.
#[tokio::test]
async fn a_token_of_an_older_revision_is_not_replaced() {
    // Any file is accepted as a key.
    let token = "--auth-token=jwt,sign-method=HS256,priv-key=/etc/hostname,ttl=300s";
    let etcd = OwnEtcd::start(&[token]).await;
    let address = format!("http://{}", etcd.address);
    let setup = Client::connect([&address], None).await.unwrap();
    let mut auth = setup.auth_client();
    let start = std::time::Instant::now();
    while auth.user_add("root", "pw", None).await.is_err() {
        assert!(start.elapsed() < std::time::Duration::from_secs(10), "etcd is not there");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    auth.role_add("root").await.unwrap();
    auth.user_grant_role("root", "root").await.unwrap();
    auth.auth_enable().await.unwrap();
    let options = || ConnectOptions::new().with_user("root", "pw").with_auto_token_refresh(true);
    let client = Client::connect([&address], Some(options())).await.unwrap();
    let other = Client::connect([&address], Some(options())).await.unwrap();
    client.kv_client().get("a", None).await.unwrap();
    other.auth_client().user_add("somebody", "pw", None).await.unwrap();
    let mut refused = 0;
    for _ in 0..3 {
        match client.kv_client().get("a", None).await {
            Ok(_) => {}
            Err(error) => {
                assert!(error.to_string().contains("revision of auth store is old"), "{error}");
                refused += 1;
            }
        }
    }
    assert_defect(refused == 3, "src/backend/etcd/error.rs: `is_unknown_user`");
}
