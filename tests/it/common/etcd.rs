//! The harness of etcd and its model. The operator uses etcd-client.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, LazyLock},
    time::Duration,
};

use async_trait::async_trait;
use distlock::FailoverBehavior;
use distlock_etcd_model::{Front, Settings};
use distlock_testkit::{
    backend::Backend,
    proxies::Proxies,
    servers::{self, METRICS, endpoints},
};
use etcd_client::{Client, ConnectOptions, GetOptions, PutOptions};
use tokio::time::timeout;

use super::{Cost, Harness, Link, Members, SOON, Servers, Sessions};

/// The kind of server that the cases run on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A cluster of three members.
    Etcd,
    /// The model of one server, in this process.
    Model,
}

const KINDS: [Kind; 2] = [Kind::Etcd, Kind::Model];

/// A store of one of these kinds, by its index.
pub(crate) struct Server<const KIND: usize> {
    url: String,
    endpoints: Vec<SocketAddr>,
    client: Client,
}

pub(crate) type Etcd = Server<0>;
pub(crate) type Model = Server<1>;

/// The model that all cases share.
static MODEL: LazyLock<Front> =
    LazyLock::new(|| Front::start(Settings::default()).expect("a port"));

impl<const KIND: usize> Server<KIND> {
    /// Returns the key's lease and value.
    pub(crate) async fn get(&self, key: &str) -> (i64, Vec<u8>) {
        let answer =
            ask(&self.client, |client| async move { client.kv_client().get(key, None).await })
                .await;
        let kv = answer.kvs().first().unwrap_or_else(|| panic!("no key {key}"));
        (kv.lease(), kv.value().to_vec())
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Writes a key as a client other than distlock would, with or without a lease.
    pub(crate) async fn put(
        &self,
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
        lease: Option<i64>,
    ) {
        let options = lease.map(|lease| PutOptions::new().with_lease(lease));
        self.client().put(key, value, options).await.expect("etcd replies");
    }

    /// Grants a lease to a client other than distlock.
    pub(crate) async fn lease(&self) -> i64 {
        self.client().lease_grant(30, None).await.expect("etcd replies").id()
    }

    /// Returns the index of the leader among the servers.
    pub(crate) async fn leader(&self) -> usize {
        for (place, server) in self.endpoints.iter().enumerate() {
            let member =
                Client::connect([format!("http://{server}")], None).await.expect("a client");
            let status =
                ask(&member, |client| async move { client.maintenance_client().status().await })
                    .await;
            if status.header().is_some_and(|header| header.member_id() == status.leader()) {
                return place;
            }
        }
        panic!("etcd has no leader");
    }
}

/// Retries a request while the cluster elects a leader, for instance after a test has partitioned
/// it. A member that is cut off may keep a request for seconds.
async fn ask<T, F>(client: &Client, mut call: impl FnMut(Client) -> F + Send) -> T
where
    F: Future<Output = Result<T, etcd_client::Error>> + Send,
{
    let start = tokio::time::Instant::now();
    loop {
        // On the heap: etcd-client's futures are large, and tests hold many of them at once.
        match timeout(Duration::from_secs(2), Box::pin(call(client.clone()))).await {
            Ok(Ok(answer)) => return answer,
            outcome if start.elapsed() > Duration::from_secs(15) => {
                panic!("etcd does not reply: {:?}", outcome.map(Result::err))
            }
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

#[async_trait]
impl<const KIND: usize> Harness for Server<KIND> {
    async fn start() -> Self {
        let url = match KINDS[KIND] {
            Kind::Etcd => Backend::Etcd.url(),
            Kind::Model => Backend::Etcd.url_of([MODEL.address]),
        };
        let endpoints = endpoints(&url).await;
        let addresses: Vec<_> =
            endpoints.iter().map(|endpoint| format!("http://{endpoint}")).collect();
        let options = ConnectOptions::new().with_require_leader(true);
        let client = Client::connect(addresses, Some(options)).await.expect("etcd replies");
        Self { url, endpoints, client }
    }

    fn url(&self) -> String {
        self.url.clone()
    }

    fn promises(&self) -> (bool, FailoverBehavior) {
        match KINDS[KIND] {
            Kind::Etcd => (true, FailoverBehavior::Continues),
            // The only member has to return.
            Kind::Model => (true, FailoverBehavior::Blocks),
        }
    }

    async fn keys(&self, namespace: &str) -> Vec<String> {
        let options = GetOptions::new().with_prefix().with_keys_only();
        let prefix = &format!("{namespace}/");
        let list = |client: Client| {
            let options = options.clone();
            async move { client.kv_client().get(prefix.as_str(), Some(options)).await }
        };
        let answer = ask(&self.client, list).await;
        let keys: Vec<_> = answer
            .kvs()
            .iter()
            .map(|kv| kv.key_str().expect("our keys are text").to_owned())
            .collect();
        // The tail key of a long queue and its release marker belong to no waiter. They must not
        // outlive the queue, so they are returned once it is empty.
        let is_internal = |key: &str| key.ends_with("!/tail") || key.ends_with("!/word");
        let places: Vec<_> = keys.iter().filter(|key| !is_internal(key)).cloned().collect();
        if places.is_empty() { keys } else { places }
    }

    async fn delete_key(&self, key: &str) {
        let answer =
            ask(&self.client, |client| async move { client.kv_client().delete(key, None).await })
                .await;
        assert_eq!(answer.deleted(), 1, "no key {key}");
    }

    async fn data(&self, key: &str) -> Option<Vec<u8>> {
        let answer =
            ask(&self.client, |client| async move { client.kv_client().get(key, None).await })
                .await;
        answer.kvs().first().map(|kv| kv.value().to_vec())
    }

    async fn erase(&self, key: &str) {
        ask(&self.client, |client| async move { client.kv_client().delete(key, None).await }).await;
    }

    async fn cost(&self, _: &[i64]) -> Cost {
        let totals = match KINDS[KIND] {
            Kind::Etcd => counted(&self.endpoints).await,
            Kind::Model => model_counted(),
        };
        let total = |metric: &str, methods: &[&str]| -> u64 {
            let series = methods
                .iter()
                .map(|method| (format!("grpc_server_{metric}_total"), (*method).to_owned()));
            series.filter_map(|key| totals.get(&key)).sum()
        };
        let watches = total("msg_received", &["Watch"]);
        Cost {
            requests: total("started", &["Range", "Put", "DeleteRange", "Txn", "LeaseTimeToLive"]),
            keepalives: total("msg_received", &["LeaseKeepAlive"]),
            watches,
            // etcd replies to each create and cancel of a watch. All other messages on the stream
            // are events.
            events: total("msg_sent", &["Watch"]).cast_signed() - watches.cast_signed(),
        }
    }

    async fn link(&self) -> Arc<dyn Link> {
        Arc::new(self.proxies().await)
    }
}

#[async_trait]
impl<const KIND: usize> Sessions for Server<KIND> {
    async fn session_of(&self, key: &str) -> i64 {
        self.get(key).await.0
    }

    async fn session_exists(&self, session: i64) -> bool {
        let answer = ask(&self.client, |client| async move {
            client.lease_client().time_to_live(session, None).await
        })
        .await;
        answer.ttl() > 0
    }

    async fn end_session_of(&self, key: &str) {
        let lease = self.session_of(key).await;
        ask(&self.client, |client| async move { client.lease_client().revoke(lease).await }).await;
    }
}

#[async_trait]
impl<const KIND: usize> Servers for Server<KIND> {
    async fn proxies(&self) -> Proxies {
        // Three proxies of one server look like three servers to a client.
        let each = match KINDS[KIND] {
            Kind::Etcd => 1,
            Kind::Model => 3,
        };
        Proxies::start(Backend::Etcd, &self.endpoints.repeat(each)).await
    }

    fn bearable_round_trip(&self) -> f64 {
        0.9
    }
}

#[async_trait]
impl<const KIND: usize> Members for Server<KIND> {
    fn network(&self) -> (Backend, &[SocketAddr]) {
        (Backend::Etcd, &self.endpoints)
    }

    async fn serves(&self, server: SocketAddr) -> bool {
        let Ok(member) = Client::connect([format!("http://{server}")], None).await else {
            return false;
        };
        let mut member = member.kv_client();
        matches!(timeout(Duration::from_secs(1), member.get("any", None)).await, Ok(Ok(_)))
    }
}

/// How often something happened, by counter and gRPC method.
type Totals = HashMap<(String, String), u64>;

/// Sums the counters of all members.
async fn counted(members: &[SocketAddr]) -> Totals {
    let mut totals = HashMap::new();
    for member in members {
        for line in metrics(*member).await.lines() {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let Some((metric, labels)) = series.split_once("{grpc_method=\"") else { continue };
            let Some((method, _)) = labels.split_once('"') else { continue };
            let value: f64 = value.parse().expect("a number");
            *totals.entry((metric.to_owned(), method.to_owned())).or_default() += value as u64;
        }
    }
    totals
}

fn model_counted() -> Totals {
    let counts = MODEL.counts().into_iter();
    let named = |(what, method)| (format!("grpc_server_{what}_total"), String::from(method));
    counts.map(|(counter, count)| (named(counter), count)).collect()
}

/// Returns a member's counters in the format of Prometheus.
async fn metrics(endpoint: SocketAddr) -> String {
    let text = servers::ask(endpoint, METRICS, SOON).await.expect("etcd replies");
    assert!(text.contains("grpc_server_started_total"), "no counters at {endpoint}: {text:.200}");
    text
}
