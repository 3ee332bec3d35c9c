//! Passwords and certificates of a database.

use std::{error::Error as _, fs};

use distlock::{Client, Error, Tls};
use distlock_testkit::{certificates::Ca, servers::certificates};

use crate::common::case::{SOON, within};

pub(crate) async fn a_lock_is_held_by_tls(url: &str) {
    let [ca, ..] = certificates();
    let file = std::env::temp_dir().join(format!("distlock-ca-{:x}.pem", fastrand::u64(..)));
    fs::write(&file, &ca).expect("a file");
    let by_url = format!("{url}?sslmode=verify-full&ca_file={}", file.display());
    let by_name = url.replace("127.0.0.1", "localhost");
    let clients = [
        Client::builder(&by_url),
        Client::builder(&by_name).tls(Tls::new().ca_certificate(&ca)),
        Client::builder(url).tls(Tls::new().ca_certificate(&ca).server_name("localhost")),
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

pub(crate) async fn what_is_wrong_with_a_certificate_is_told(url: &str) {
    let [ca, ..] = certificates();
    for (tls, reason) in [
        (Tls::new().ca_certificate(&Ca::new().pem), "another CA"),
        (Tls::new().ca_certificate(&ca).server_name("example.org"), "another name"),
    ] {
        let connecting = Client::builder(url).tls(tls).connect();
        let error = within(SOON, "it is refused", connecting).await.expect_err("refused");
        assert!(matches!(error, Error::Denied { .. }), "{error:?}");
        let told = error.source().expect("a reason").to_string();
        assert!(told.contains(reason) && told.contains("127.0.0.1"), "{told}");
        assert!(!format!("{error:?} {told}").contains("apppw"));
    }
}

pub(crate) async fn what_cannot_be_checked_is_refused_before_anything_is_sent(url: &str) {
    let (scheme, _) = url.split_once("://").expect("a scheme");
    let tls = Client::builder(format!("{scheme}://192.0.2.1/db")).tls(Tls::new()).connect();
    let error = within(SOON, "it is refused", tls).await.expect_err("there is no CA");
    assert!(matches!(error, Error::InvalidConfig { option: "tls", .. }), "{error:?}");
    let plain = Client::connect(format!("{scheme}://app:s3cret@192.0.2.1/db"));
    let error = within(SOON, "it is refused", plain).await.expect_err("it could be read");
    assert!(matches!(error, Error::InvalidConfig { option: "credentials", .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("s3cret"));
}

pub(crate) async fn who_is_not_let_in_is_told(url: &str) {
    let client = Client::builder(url).credentials("app", "wrong").connect();
    let error = within(SOON, "it is told", client).await.expect_err("refused");
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    let shown = format!("{error} {error:?} {}", error.source().expect("a reason"));
    assert!(!shown.contains("wrong") && shown.contains("127.0.0.1"), "{shown}");
}
