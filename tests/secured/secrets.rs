//! No output and no log contains a secret.

use std::time::Duration;

use distlock::{Client, Credentials, Tls};
use distlock_testkit::certificates::{Ca, LONG, Pair};
use tracing_subscriber::filter::LevelFilter;

use crate::{
    common::{
        connected,
        secrets::{Shown, lines_of},
    },
    folder::Folder,
    logs,
    own_etcd::{NAME, OwnEtcd, PASSWORD, ROOT_PASSWORD},
    own_zookeeper::{OTHER_PASSWORD, OwnZooKeeper, namespace},
};

const WRONG: &str = "wrong-s3cret";
const NEXT: &str = "next-s3cret";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_printed_or_logged() {
    logs::collect(LevelFilter::TRACE);
    let mut shown = Shown::printed();
    let mut keys = Vec::new();
    etcd(&mut shown, &mut keys).await;
    zookeeper(&mut shown, &mut keys).await;
    let logs = logs::collected();
    println!("{} lines, {} bytes", logs.lines().count(), logs.len());
    assert!(logs.lines().count() > 100, "nothing was logged");
    let mut secrets = vec![
        PASSWORD,
        OTHER_PASSWORD,
        ROOT_PASSWORD,
        WRONG,
        NEXT,
        "app-s3",
        "hmac-s3cret-of-the-tokens",
    ];
    secrets.extend(keys.iter().flat_map(|key| lines_of(key)));
    // The start of tokens of the kind `jwt`.
    secrets.push("eyJhbGciOi");
    shown.has_none_of(&secrets);
    for secret in secrets {
        let bytes = format!("{:?}", secret.as_bytes());
        for secret in [secret, bytes.trim_matches(['[', ']'])] {
            let line = logs.find(secret).and_then(|at| logs[..at].lines().last());
            assert!(!logs.contains(secret), "the secret is logged, after {line:?}");
        }
    }
}

async fn etcd(shown: &mut Shown, keys: &mut Vec<String>) {
    for token in ["simple", "jwt,sign-method=HS256,priv-key=/secured/current/hmac,ttl=5s"] {
        let etcd = OwnEtcd::start(token).await;
        let Pair { certificate, key } = etcd.issue(LONG);
        keys.push(key.clone());
        let folder = Folder::new(&[
            ("ca.pem", &etcd.ca.pem),
            ("tls.crt", &certificate),
            ("tls.key", &key),
            ("password", PASSWORD),
        ]);
        let texts = Tls::new().ca_certificate(&etcd.ca.pem).client_identity(&certificate, &key);
        let files = Tls::new()
            .ca_certificate_file(folder.path("ca.pem"))
            .client_identity_files(folder.path("tls.crt"), folder.path("tls.key"));
        let foreign = Ca::new().issue("client", &[], LONG);
        keys.push(foreign.key.clone());
        let stranger = Tls::new()
            .ca_certificate(&etcd.ca.pem)
            .client_identity(foreign.certificate, foreign.key);
        for tls in [texts, files, stranger] {
            shown.debug("Tls", &tls);
            let builder = etcd.builder().tls(tls.clone());
            shown.builder(&builder).await;
            let builder = etcd.builder().tls(tls.server_name(NAME));
            for password in [PASSWORD, WRONG] {
                shown.debug("Credentials", &Credentials::new("app", password));
                shown.builder(&builder.clone().credentials("app", password)).await;
            }
            let called = builder.clone().credentials_from(|| Ok(Credentials::new("app", PASSWORD)));
            shown.builder(&called).await;
            shown.builder(&builder.password_file("app", folder.path("password"))).await;
        }
        let url = format!(
            "etcds://app:{PASSWORD}@{}/app/locks?ca_file={}&server_name={NAME}&cert_file={}\
             &key_file={}",
            etcd.address,
            folder.path("ca.pem"),
            folder.path("tls.crt"),
            folder.path("tls.key")
        );
        shown.builder(&Client::builder(url)).await;
        // A password that changes during use, and a token that expires.
        let client = etcd.builder().tls(etcd.tls()).credentials("app", PASSWORD);
        let client = connected(client).await;
        let guard = client.mutex("held").lock().await.unwrap();
        etcd.change_password(NEXT).await;
        let error = client.mutex("other").lock().await.unwrap_err();
        shown.error("its password is another one", &error);
        shown.debug("Client", &client);
        shown.debug("LockGuard", &guard);
        tokio::time::sleep(Duration::from_millis(100)).await;
        etcd.change_password(PASSWORD).await;
        guard.unlock().await.unwrap();
    }
}

async fn zookeeper(shown: &mut Shown, keys: &mut Vec<String>) {
    let zookeeper = OwnZooKeeper::start().await;
    let Pair { certificate, key } = zookeeper.issue(LONG);
    keys.push(key.clone());
    let tls = Tls::new().ca_certificate(&zookeeper.ca.pem).client_identity(certificate, key);
    let foreign = Ca::new().issue("client", &[], LONG);
    keys.push(foreign.key.clone());
    let stranger = Tls::new()
        .ca_certificate(&zookeeper.ca.pem)
        .client_identity(foreign.certificate, foreign.key);
    let plain = zookeeper.builder();
    let builder = zookeeper.builder_by(zookeeper.tls);
    for (user, password) in [("app", crate::own_zookeeper::PASSWORD), ("other", WRONG)] {
        for builder in
            [plain.clone(), builder.clone().tls(tls.clone()), builder.clone().tls(stranger.clone())]
        {
            let builder = builder.credentials(user, password);
            shown.builder(&builder.clone().namespace(namespace())).await;
            shown.builder(&builder.sasl().namespace(namespace())).await;
        }
    }
}
