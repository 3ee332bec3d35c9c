//! Nodes reached over TLS.

use std::{fs, time::Duration};

use distlock::{Client, Error, Tls};
use distlock_testkit::{
    docker::OwnServer,
    servers::{certificates, certificates_folder},
};
use futures_util::future::join_all;

use crate::common::{
    SOON,
    cases::encrypted::{CaFile, a_wrong_certificate_is_named, is_misconfigured},
    close, locked,
    redlock::{ask, dial, parts},
    refused, within,
};

/// New nodes count after this time.
const TTL: Duration = Duration::from_secs(1);

struct Secured {
    own: Vec<OwnServer>,
    /// The TLS addresses.
    hosts: String,
}

impl Secured {
    async fn start() -> Self {
        let folder = fs::canonicalize(certificates_folder()).expect("docker/up creates it");
        let certificates = format!("--volume={}:/certs:ro", folder.display());
        let run = [
            "--publish=127.0.0.1::6379",
            "--publish=127.0.0.1::6380",
            "--env=SERVER=valkey",
            &certificates,
        ];
        let own = join_all((0..3).map(|_| OwnServer::start("redlock1", &run, &[]))).await;
        let mut hosts = Vec::new();
        for server in &own {
            hosts.push(server.address(6380).await.to_string());
        }
        Self { own, hosts: hosts.join(",") }
    }

    fn url(&self, scheme: &str, more: &str) -> String {
        let more = more.replace('?', "&");
        format!("{scheme}://app:apppw@{}?longest_ttl={}s{more}", self.hosts, TTL.as_secs())
    }

    /// Returns the number of nodes that have a lock, by their plaintext port.
    async fn having(&self, key: &str) -> usize {
        let mut having = 0;
        for server in &self.own {
            let node = dial(server.address(6379).await).await;
            having += ask::<usize>(&node, redis::cmd("EXISTS").arg(parts(key).0)).await;
        }
        having
    }
}

async fn connect(builder: distlock::Builder) -> Client {
    // The nodes may still be starting.
    let connecting = async {
        loop {
            match builder.clone().connect().await {
                Err(Error::Unavailable { .. }) => tokio::task::yield_now().await,
                connected => return connected.expect("connected"),
            }
        }
    };
    within(SOON, "the client connects", connecting).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_held_by_tls() {
    let nodes = Secured::start().await;
    let ([ca, certificate, key], file) = (certificates(), CaFile::new());
    let by_url = nodes.url("redlocks", &format!("?ca_file={}", file.0));
    let by_name = by_url.replace("127.0.0.1", "localhost");
    let tls = Tls::new().ca_certificate(&ca);
    for builder in [
        Client::builder(&by_url),
        Client::builder(&by_name),
        Client::builder(format!("{by_url}&server_name=localhost")),
        Client::builder(nodes.url("redlocks", "")).tls(tls.client_identity(&certificate, &key)),
    ] {
        let client = connect(builder.session_ttl(TTL)).await;
        let guard = locked(&client, "a").await;
        assert!(nodes.having(guard.key()).await >= 2);
        let other = connect(Client::builder(&by_url).session_ttl(TTL)).await;
        assert!(other.mutex("a").try_lock().await.expect("a reply").is_none());
        within(SOON, "the lock is kept", tokio::time::sleep(TTL * 2)).await;
        guard.unlock().await.expect("the lock is held");
        close([client, other]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificate_errors_name_the_cause() {
    let nodes = Secured::start().await;
    let [ca, ..] = certificates();
    let url = nodes.url("redlocks", "");
    // Wait until the nodes are up.
    let builder = |url: &str, tls| Client::builder(url).session_ttl(TTL).tls(tls);
    drop(connect(builder(&url, Tls::new().ca_certificate(&ca))).await);
    a_wrong_certificate_is_named(&Client::builder(&url).session_ttl(TTL)).await;
    // A server without TLS is not sent a password.
    let mut plain = Vec::new();
    for server in &nodes.own {
        plain.push(server.address(6379).await.to_string());
    }
    let plain = format!("redlocks://app:apppw@{}", plain.join(","));
    let error = refused(builder(&plain, Tls::new().ca_certificate(&ca))).await;
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
}

#[tokio::test]
async fn unverifiable_settings_are_refused_before_io() {
    let nodes = "192.0.2.1,192.0.2.2,192.0.2.3";
    for (url, wrong) in [
        (format!("redlocks://app:s3cret@{nodes}?ca_file=/nowhere/ca.pem"), "tls"),
        // Anybody could read it.
        (format!("redlock://app:s3cret@{nodes}"), "credentials"),
    ] {
        is_misconfigured(Client::builder(url), wrong).await;
    }
    let no_tls = format!("redlock://{nodes}?ca_file=/nowhere/ca.pem");
    let error = refused(Client::builder(no_tls)).await;
    assert!(matches!(error, Error::InvalidUrl { .. }), "{error:?}");
}
