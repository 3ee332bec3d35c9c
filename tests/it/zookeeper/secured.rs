//! Users, passwords and certificates.

use std::time::Duration;

use distlock::{Builder, Client, Error, Tls};
use distlock_testkit::{
    backend::Backend,
    servers::{certificates, endpoints},
};

use crate::common::{
    case::{SOON, within},
    secrets::{Shown, lines_of},
};

fn namespace() -> String {
    format!("/t-{:016x}", fastrand::u64(..))
}

async fn with_users() -> Builder {
    let url = Backend::ZooKeeper.url_with_users();
    endpoints(&url).await;
    Client::builder(&url).namespace(namespace())
}

async fn with_tls() -> Builder {
    let url = Backend::ZooKeeper.url_with_tls();
    endpoints(&url).await;
    Client::builder(&url).namespace(namespace())
}

/// ZooKeeper takes any user; what counts is who made the nodes.
#[tokio::test]
async fn locks_belong_to_the_user_who_made_them() {
    let builder = with_users().await;
    let client = builder.clone().credentials("app", "apppw").connect().await.unwrap();
    let guard = client.mutex("a").lock().await.unwrap();
    let colleague = builder.clone().credentials("app", "apppw").connect().await.unwrap();
    assert!(colleague.mutex("a").try_lock().await.unwrap().is_none());
    let strangers = [
        builder.clone().credentials("app", "wrong"),
        builder.clone().credentials("other", "apppw"),
        builder,
    ];
    for stranger in strangers {
        let stranger = stranger.connect().await.unwrap();
        for outcome in [
            within(SOON, "it is refused", stranger.mutex("a").lock()).await.map(Some),
            within(SOON, "it is refused", stranger.mutex("a").try_lock()).await,
            within(SOON, "it is refused", stranger.mutex("new").lock()).await.map(Some),
        ] {
            let error = outcome.unwrap_err();
            assert!(matches!(error, Error::Denied { .. }), "{error:?}");
            assert!(!error.is_retryable());
        }
        stranger.close().await.unwrap();
    }
    assert!(guard.is_valid());
    guard.unlock().await.unwrap();
    let guard = colleague.mutex("a").lock().await.unwrap();
    guard.unlock().await.unwrap();
    client.close().await.unwrap();
    colleague.close().await.unwrap();
}

#[tokio::test]
async fn certificates_let_in() {
    let [ca, certificate, key] = certificates();
    let tls = Tls::new().ca_certificate(ca).client_identity(certificate, key);
    let client = with_tls().await.tls(tls).connect().await.unwrap();
    let guard = client.mutex("a").lock().await.unwrap();
    assert!(client.mutex("a").try_lock().await.unwrap().is_none());
    guard.unlock().await.unwrap();
    client.close().await.unwrap();
}

/// Each wrong in another way; none hangs, none is let in.
#[tokio::test]
async fn wrong_certificates_are_refused() {
    let [ca, certificate, key] = certificates();
    let wrong = [
        (
            "a CA that did not sign the server's",
            Some(Tls::new().ca_certificate(&certificate).client_identity(&certificate, &key)),
        ),
        ("no certificate of its own", Some(Tls::new().ca_certificate(&ca))),
        ("no TLS at all", None),
    ];
    for (what, tls) in wrong {
        let builder = with_tls().await.connect_timeout(Duration::from_secs(3));
        let builder = match tls {
            Some(tls) => builder.tls(tls),
            None => builder,
        };
        let error = within(SOON, what, builder.connect()).await.unwrap_err();
        assert!(
            matches!(error, Error::Denied { .. } | Error::Unavailable { .. }),
            "{what}: {error:?}"
        );
        assert!(std::error::Error::source(&error).is_some(), "{what}: {error:?}");
    }
}

/// What cannot work is told before a server is asked.
#[tokio::test]
async fn garbled_certificates_are_told() {
    let [ca, ..] = certificates();
    for tls in [
        Tls::new().ca_certificate("no PEM"),
        Tls::new().ca_certificate(ca).client_identity("no PEM", "no key"),
    ] {
        let error =
            within(SOON, "it is told", with_tls().await.tls(tls).connect()).await.unwrap_err();
        assert!(matches!(error, Error::InvalidConfig { option: "tls", .. }), "{error:?}");
    }
}

/// Whether they are let in, refused, or find nobody.
#[tokio::test]
async fn nothing_that_is_shown_has_a_secret() {
    let [ca, certificate, key] = certificates();
    let mut shown = Shown::default();
    let nobody = || Client::builder("zk://127.0.0.1:1").connect_timeout(Duration::from_millis(500));
    let users = with_users().await;
    for builder in [users.clone(), nobody()] {
        shown.builder(&builder.credentials("app", "apppw")).await;
    }
    let stranger = users.credentials("app", "wrong-s3cret").connect().await.unwrap();
    shown.error("Denied", &stranger.mutex("secrets").lock().await.unwrap_err());
    shown.debug("Client", &stranger);
    let tls = Tls::new().ca_certificate(&ca).client_identity(&certificate, &key);
    let unknown = Tls::new().ca_certificate(&certificate).client_identity(&certificate, &key);
    let garbled =
        Tls::new().ca_certificate(&ca).client_identity(&certificate, key.replace('\n', " "));
    let mixed = Tls::new().ca_certificate(format!("{key}{ca}").replace('\n', " "));
    for tls in [tls, unknown, garbled, mixed] {
        for builder in [with_tls().await, nobody()] {
            let builder = builder.connect_timeout(Duration::from_secs(3)).tls(tls.clone());
            shown.builder(&builder.clone().credentials("app", "apppw")).await;
            shown.builder(&builder).await;
        }
    }
    shown.has_none_of(&["apppw", "wrong-s3cret"]);
    shown.has_none_of(&lines_of(&key));
}
