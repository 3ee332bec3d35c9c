//! One endpoint of three is bad, in a different way each time: its cost for clients.

use std::time::{Duration, Instant};

use distlock::{Builder, Client, Tls};
use distlock_testkit::{proxy::Mode, servers::certificates};
use tokio::task::JoinSet;

use crate::{
    clusters::on_both,
    common::{Case, Members, SOON, chain, eventually, refused, within},
};

const CLIENTS: usize = 12;
/// So few rounds that the clients hit by the fault, at least a third, account for more than one
/// lock in a hundred.
const ROUNDS: usize = 20;
const TTL: Duration = Duration::from_secs(6);
/// The default request timeout with this TTL.
const TIMEOUT: Duration = Duration::from_secs(3);

fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() * 99 / 100 - 1]
}

/// Locks repeatedly with all clients at once, each with its own lock, and returns the 99th
/// percentile of `lock()`.
async fn lock(clients: &[Client]) -> Duration {
    let mut tasks = JoinSet::new();
    for (place, client) in clients.iter().enumerate() {
        let mutex = client.mutex(format!("own-{place}"));
        tasks.spawn(async move {
            let mut times = Vec::new();
            for _ in 0..ROUNDS {
                let start = Instant::now();
                let guard = mutex.lock().await.expect("granted");
                times.push(start.elapsed());
                guard.unlock().await.expect("released");
            }
            times
        });
    }
    let times: Vec<_> = within(SOON * 3, "all locks are granted", tasks.join_all())
        .await
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(times.len(), CLIENTS * ROUNDS);
    p99(times)
}

fn builder(t: &Case<dyn Members>, url: &str, tls: Option<&Tls>) -> Builder {
    let builder = t.builder_for(url).session_ttl(TTL);
    match tls {
        Some(tls) => builder.tls(tls.clone()),
        None => builder,
    }
}

/// Connects `CLIENTS` clients, and returns the slowest one's time.
async fn connect(t: &Case<dyn Members>, url: &str, tls: Option<&Tls>) -> (Vec<Client>, Duration) {
    let (mut clients, mut slowest) = (Vec::new(), Duration::ZERO);
    let mut tasks = JoinSet::new();
    for _ in 0..CLIENTS {
        let builder = builder(t, url, tls);
        let start = Instant::now();
        tasks.spawn(async move { (builder.connect().await, start.elapsed()) });
    }
    for (client, took) in within(SOON, "all connect", tasks.join_all()).await {
        clients.push(client.expect("the other endpoints serve"));
        slowest = slowest.max(took);
    }
    (clients, slowest)
}

async fn close(clients: Vec<Client>) {
    for client in clients {
        within(SOON, "the client closes", client.close()).await.expect("closed");
    }
}

fn judge(what: &str, healthy: Duration, p99: Duration) {
    println!("{what}: p99 {p99:?}, {healthy:?} with healthy endpoints");
    assert!(p99 < healthy * 2 + TIMEOUT, "{what}: p99 {p99:?}, {healthy:?} with healthy endpoints");
}

/// Asserts that a client with this endpoint alone gets an error that names it.
async fn named(t: &Case<dyn Members>, endpoint: &str, tls: Option<&Tls>) {
    let url = format!("{}://{endpoint}", t.store.network().0.scheme());
    let builder = builder(t, &url, tls).connect_timeout(Duration::from_secs(2));
    let error = chain(&refused(builder).await);
    println!("{error}");
    assert!(error.contains(endpoint), "{error}");
}

/// The endpoint that most clients use fails under them, by refusing connections or by silence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_fails_costs_one_timeout_at_most() {
    on_both(async |t| {
        for mode in [Mode::Refuse, Mode::Blackhole] {
            let proxies = t.proxies().await;
            let (clients, _) = connect(t, &proxies.url(), None).await;
            let healthy = lock(&clients).await;
            let busiest = proxies
                .all
                .iter()
                .max_by_key(|proxy| proxy.connections())
                .expect("there are three");
            assert!(busiest.connections() >= CLIENTS / 3, "too few for one in a hundred locks");
            busiest.set(mode.clone());
            let failed = lock(&clients).await;
            named(t, &busiest.address.to_string(), None).await;
            // New clients meet the failed endpoint as they connect.
            let (late, slowest) = connect(t, &proxies.url(), None).await;
            assert!(slowest < healthy * 2 + TIMEOUT, "{mode:?}: connected after {slowest:?}");
            let bad = lock(&late).await;
            proxies.set(&Mode::Pass);
            // The machine's load may have changed.
            let healthy = healthy.max(lock(&clients).await);
            judge(&format!("{}, {mode:?}", t.store.url()), healthy, failed);
            judge(&format!("{}, {mode:?} from the start", t.store.url()), healthy, bad);
            close(clients).await;
            close(late).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_without_an_address_costs_one_timeout_at_most() {
    on_both(async |t| {
        let (clients, _) = connect(t, &t.store.url(), None).await;
        let healthy = lock(&clients).await;
        close(clients).await;
        let nowhere = "nowhere.invalid:2379";
        let url = t.store.url();
        let (known, _) = url.rsplit_once(',').expect("three servers");
        let (clients, slowest) = connect(t, &format!("{known},{nowhere}"), None).await;
        assert!(slowest < healthy * 2 + TIMEOUT, "connected after {slowest:?}");
        judge(&format!("{}, no address", t.store.url()), healthy, lock(&clients).await);
        named(t, nowhere, None).await;
        close(clients).await;
    })
    .await;
}

/// The server with TLS, by two of its names, and one without TLS.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_without_tls_costs_one_timeout_at_most() {
    on_both(async |t| {
        let [ca, certificate, key] = certificates();
        let tls = Tls::new().ca_certificate(ca).client_identity(certificate, key);
        let (backend, servers) = t.store.network();
        let (scheme, plain, url) =
            (backend.scheme(), servers[0].to_string(), backend.url_with_tls());
        let (_, port) = url.rsplit_once(':').expect("a port");
        let good = format!("{scheme}://127.0.0.1:{port},localhost:{port}");
        // The first handshakes of a new server take it seconds.
        let first = async || t.builder_for(&good).tls(tls.clone()).connect().await.is_ok();
        eventually(SOON * 2, "the server serves TLS", first).await;
        let (clients, _) = connect(t, &good, Some(&tls)).await;
        let healthy = lock(&clients).await;
        close(clients).await;
        let (clients, slowest) = connect(t, &format!("{good},{plain}"), Some(&tls)).await;
        assert!(slowest < healthy * 2 + TIMEOUT, "connected after {slowest:?}");
        judge(&format!("{good}, no TLS"), healthy, lock(&clients).await);
        named(t, &plain, Some(&tls)).await;
        close(clients).await;
    })
    .await;
}
