//! A member whose disk hangs: it still serves its state and its watches, and applies no new writes.

use std::{net::SocketAddr, time::Duration};

use distlock::{Client, LostReason};
use distlock_testkit::{
    disk::{HungDisk, LOG_OF_ETCD},
    docker::OwnServer,
    proxy::Proxy,
    servers::{self, METRICS},
};
use etcd_client::GetOptions;
use tokio::time::{sleep, timeout};

use crate::common::{SOON, Waiter, eventually, queue_of, take_turn, within};

/// The members of a cluster of one test, on this machine's network.
struct Cluster {
    members: Vec<OwnServer>,
    addresses: Vec<SocketAddr>,
}

/// Starts a member of `cluster` with ports for clients and peers.
async fn member(name: &str, [client, peer]: [u16; 2], cluster: &str, state: &str) -> OwnServer {
    let [client, peer] = [client, peer].map(|port| format!("http://127.0.0.1:{port}"));
    let arguments = [
        format!("--name={name}"),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster={cluster}"),
        format!("--initial-cluster-state={state}"),
        "--data-dir=/data/etcd".to_owned(),
    ];
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let run = ["--network=host", "--tmpfs=/data", "--entrypoint=etcd"];
    OwnServer::start("etcd1", &run, &arguments).await
}

impl Cluster {
    async fn start(size: usize) -> Self {
        let ports = free_ports(size * 2);
        let (clients, peers) = ports.split_at(size);
        let name = |(n, peer)| format!("m{n}=http://127.0.0.1:{peer}");
        let all = peers.iter().enumerate().map(name).collect::<Vec<_>>().join(",");
        let mut cluster = Self { members: Vec::new(), addresses: Vec::new() };
        for (n, (client, peer)) in clients.iter().zip(peers).enumerate() {
            cluster.members.push(member(&format!("m{n}"), [*client, *peer], &all, "new").await);
            cluster.addresses.push(([127, 0, 0, 1], *client).into());
        }
        for address in &cluster.addresses {
            serves(*address).await;
        }
        cluster
    }

    /// Returns the indices of the leader and of a follower.
    async fn roles(&self) -> (usize, usize) {
        let mut leader = None;
        for (place, address) in self.addresses.iter().enumerate() {
            let status = raw(*address).await.status().await.expect("the member serves");
            if status.header().is_some_and(|header| header.member_id() == status.leader()) {
                leader = Some(place);
            }
        }
        let leader = leader.expect("etcd has a leader");
        (leader, (leader + 1) % self.addresses.len())
    }
}

/// Adds a learner, which does not vote, to a single etcd.
async fn learner(voter: SocketAddr) -> (OwnServer, SocketAddr) {
    let [client, peer] = free_ports(2).try_into().expect("two");
    let url = format!("http://127.0.0.1:{peer}");
    let first = raw(voter).await.cluster_client().member_list().await.expect("the member serves");
    let first = first.members()[0].peer_urls()[0].clone();
    let add = etcd_client::MemberAddOptions::new().with_is_learner();
    let added = raw(voter).await.cluster_client().member_add([url.clone()], Some(add)).await;
    added.expect("the learner is added");
    let all = format!("m0={first},learner={url}");
    let server = member("learner", [client, peer], &all, "existing").await;
    (server, ([127, 0, 0, 1], client).into())
}

/// Returns ports without a listener.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
    let bind = |_| std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let listeners: Vec<_> = (0..count).map(bind).collect();
    listeners.iter().map(|listener| listener.local_addr().expect("an address").port()).collect()
}

pub(crate) async fn raw(address: SocketAddr) -> etcd_client::Client {
    etcd_client::Client::connect([format!("http://{address}")], None).await.expect("a client")
}

/// Waits until a member or a proxy serves.
pub(crate) async fn serves(address: SocketAddr) {
    let served = async || raw(address).await.get("any", None).await.is_ok();
    eventually(SOON * 2, "etcd serves", served).await;
}

/// Returns a member's count of commits to its database. A commit follows a change by 0.1 s.
async fn commits(member: SocketAddr) -> String {
    let text = servers::ask(member, METRICS, SOON).await.expect("etcd replies");
    let count = text.lines().find(|line| line.starts_with(COMMITS)).expect("a counter");
    count.to_owned()
}

const COMMITS: &str = "etcd_disk_backend_commit_duration_seconds_count ";

/// Returns a client that knows all `proxies` and is connected through the wanted one.
async fn by_way_of(proxies: &[Proxy], wanted: usize) -> Client {
    let all: Vec<_> = proxies.iter().map(|proxy| proxy.address.to_string()).collect();
    let url = format!("etcd://{}", all.join(","));
    loop {
        let before = proxies[wanted].accepted();
        let builder = Client::builder(&url)
            .session_ttl(Duration::from_secs(6))
            .request_timeout(Duration::from_secs(1))
            .recheck_interval(Duration::from_secs(1));
        let client = builder.connect().await.expect("a client connects");
        if proxies[wanted].accepted() > before {
            return client;
        }
        client.close().await.expect("the client closes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_and_holders_leave_a_member_whose_disk_hangs() {
    let cluster = Cluster::start(3).await;
    let (leader, follower) = cluster.roles().await;
    let hang = async || {
        // A member serves nothing while a write to its database hangs, so only a write to its log
        // may.
        eventually(SOON, "no write is pending", async || {
            let before = commits(cluster.addresses[follower]).await;
            sleep(Duration::from_millis(300)).await;
            commits(cluster.addresses[follower]).await == before
        })
        .await;
        HungDisk::of(cluster.members[follower].container(), LOG_OF_ETCD).await
    };
    waiters_and_holders_leave(&cluster.addresses, [leader, follower], hang).await;
}

/// `hang` makes the follower's disk hang until the returned value is dropped.
pub(crate) async fn waiters_and_holders_leave<H>(
    members: &[SocketAddr],
    [leader, follower]: [usize; 2],
    hang: impl AsyncFnOnce() -> H,
) {
    let mut proxies = Vec::new();
    for address in members {
        proxies.push(Proxy::start(*address, None).await);
    }
    let holder = by_way_of(&proxies, leader).await;
    let waiter = by_way_of(&proxies, follower).await;
    let evictee = by_way_of(&proxies, follower).await;
    let guard = holder.mutex("a").lock().await.expect("free");
    let waiting = Waiter::of(&waiter, "a");
    let evicted = evictee.mutex("b").lock().await.expect("free");
    queue_of(&holder, "a", 2).await;

    let _hung = hang().await;
    let (well, behind) = (raw(members[leader]).await, raw(members[follower]).await);
    let mut written = 0;
    eventually(SOON * 2, "the member is behind", async || {
        written += 1;
        let key = format!("written-{written}");
        well.kv_client()
            .put(key.as_str(), "", None)
            .await
            .expect("the other members are a majority");
        sleep(Duration::from_millis(200)).await;
        let options = GetOptions::new().with_serializable();
        let read =
            within(SOON, "the member serves", behind.kv_client().get(key, Some(options))).await;
        read.expect("the member serves").kvs().is_empty()
    })
    .await;

    guard.unlock().await.expect("released");
    let deleted = well.kv_client().delete(evicted.key(), None).await.expect("deleted");
    assert_eq!(deleted.deleted(), 1);
    waiting.served().await;
    let lost = within(SOON, "the holder is notified", evicted.lost()).await;
    assert_eq!(lost, LostReason::Evicted);
    for client in [holder, waiter, evictee] {
        let _ = timeout(SOON, client.close()).await;
    }
}

/// A learner serves no transaction, no watch and no keepalive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_is_left_for_a_voting_member() {
    let cluster = Cluster::start(1).await;
    let voter = cluster.addresses[0];
    let (_learner, learner) = learner(voter).await;
    let url = |endpoints: &str| Client::builder(format!("etcd://{endpoints}"));
    eventually(SOON * 2, "the learner refuses", async || {
        let connecting =
            url(&learner.to_string()).connect_timeout(Duration::from_secs(2)).connect();
        let refused = connecting.await.expect_err("a learner grants no lease");
        let source = std::error::Error::source(&refused).expect("a reason").to_string();
        source.contains("learner") && refused.is_retryable()
    })
    .await;
    let proxy = Proxy::start(voter, None).await;
    let client =
        url(&format!("{},{learner}", proxy.address)).connect().await.expect("the client connects");
    let guard = client.mutex("a").lock().await.expect("free");
    // All connections to the voting member end: the client tries the learner and leaves it.
    proxy.hang_up();
    within(SOON, "the lock is released", guard.unlock())
        .await
        .expect("the release has a known outcome");
    take_turn(&client, "a").await;
    client.close().await.expect("the store replies");
}
