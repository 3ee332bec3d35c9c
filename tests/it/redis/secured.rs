//! Passwords and certificates.

use std::{error::Error as _, fs};

use distlock::{Client, Error, Tls};
use distlock_testkit::{
    certificates::Ca,
    servers::{certificates, redis_tls_url, redis_url},
};

use crate::common::{
    Harness,
    case::{SOON, within},
    redis::Redis,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_held_by_tls() {
    drop(Redis::start().await);
    let [ca, ..] = certificates();
    let file = std::env::temp_dir().join(format!("distlock-ca-{:x}.pem", fastrand::u64(..)));
    fs::write(&file, &ca).expect("a file");
    let by_url = format!("{}?ca_file={}", redis_tls_url(), file.display());
    let by_name = redis_tls_url().replace("127.0.0.1", "localhost");
    let clients = [
        Client::builder(&by_url),
        Client::builder(&by_name).tls(Tls::new().ca_certificate(&ca)),
        Client::builder(redis_tls_url())
            .tls(Tls::new().ca_certificate(&ca).server_name("localhost")),
    ];
    for builder in clients {
        let namespace = format!("/tls-{:016x}", fastrand::u64(..));
        let connecting = builder.namespace(namespace).connect();
        let client = within(SOON, "it connects", connecting).await.expect("connected");
        let guard = client.mutex("a").lock().await.expect("granted");
        assert!(client.mutex("a").try_lock().await.expect("an answer").is_none());
        guard.unlock().await.expect("released");
        client.close().await.expect("closed");
    }
    fs::remove_file(file).expect("removed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_certificate_is_told() {
    drop(Redis::start().await);
    let [ca, ..] = certificates();
    for (tls, reason) in [
        (Tls::new().ca_certificate(&Ca::new().pem), "another CA"),
        (Tls::new().ca_certificate(&ca).server_name("example.org"), "another name"),
    ] {
        let connecting = Client::builder(redis_tls_url()).tls(tls).connect();
        let error = within(SOON, "it is refused", connecting).await.expect_err("refused");
        assert!(matches!(error, Error::Denied { .. }), "{error:?}");
        let told = error.source().expect("a reason").to_string();
        assert!(told.contains(reason) && told.contains("127.0.0.1"), "{told}");
        assert!(!format!("{error:?} {told}").contains("apppw"));
    }
}

#[tokio::test]
async fn what_cannot_be_checked_is_refused_before_anything_is_sent() {
    let tls = Client::connect("rediss://192.0.2.1/0");
    let error = within(SOON, "it is refused", tls).await.expect_err("there is no CA");
    assert!(matches!(error, Error::InvalidConfig { option: "tls", .. }), "{error:?}");
    for plain in ["redis://app:s3cret@192.0.2.1", "redis://:s3cret@192.0.2.1/1"] {
        let refused = within(SOON, "it is refused", Client::connect(plain)).await;
        let error = refused.expect_err("it could be read");
        assert!(matches!(error, Error::InvalidConfig { option: "credentials", .. }), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("s3cret"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_let_in_is_told() {
    drop(Redis::start().await);
    let nobody = redis_url().replace("app:apppw@", "");
    for builder in [
        Client::builder(redis_url()).credentials("app", "wrong"),
        Client::builder(redis_url()).credentials("stranger", "wrong"),
        Client::builder(nobody),
        // There are 16.
        Client::builder(format!("{}/99", redis_url())),
    ] {
        let client = builder.connect();
        let error = within(SOON, "it is told", client).await.expect_err("refused");
        assert!(matches!(error, Error::Denied { .. }), "{error:?}");
        let shown = format!("{error} {error:?} {}", error.source().expect("a reason"));
        assert!(!shown.contains("wrong\"") && shown.contains("127.0.0.1"), "{shown}");
        assert!(!shown.contains("apppw"), "{shown}");
    }
}

/// What is in one database is nothing to another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_are_stores_of_their_own() {
    drop(Redis::start().await);
    let namespace = format!("/db-{:016x}", fastrand::u64(..));
    let mut held = Vec::new();
    for database in ["", "/1", "/15"] {
        let connecting =
            Client::builder(format!("{}{database}", redis_url())).namespace(&namespace).connect();
        let client = within(SOON, "it connects", connecting).await.expect("connected");
        let guard = client.mutex("a").try_lock().await.expect("an answer").expect("free");
        held.push((client, guard));
    }
    for (client, guard) in held {
        guard.unlock().await.expect("released");
        client.close().await.expect("closed");
    }
}
