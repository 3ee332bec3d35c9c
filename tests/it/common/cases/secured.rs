//! Certificates of etcd and ZooKeeper.

use std::{error::Error as _, time::Duration};

use distlock::{Builder, Client, Error, Tls};
use distlock_testkit::{
    backend::Backend,
    servers::{certificates, endpoints},
};

use crate::common::{
    SOON, close, connected, refused,
    secrets::{Shown, lines_of},
    within,
};

/// Returns a namespace. The user `app` may access keys that begin with `/distlock`.
pub(crate) fn namespace() -> String {
    format!("/distlock-t-{:016x}", fastrand::u64(..))
}

async fn builder(url: String) -> Builder {
    endpoints(&url).await;
    Client::builder(url).namespace(namespace())
}

pub(crate) async fn with_users(backend: Backend) -> Builder {
    builder(backend.url_with_users()).await
}

pub(crate) async fn with_tls(backend: Backend) -> Builder {
    builder(backend.url_with_tls()).await
}

pub(crate) async fn valid_certificates_are_accepted(backend: Backend) {
    let [ca, certificate, key] = certificates();
    let tls = Tls::new().ca_certificate(ca).client_identity(certificate, key);
    let client = connected(with_tls(backend).await.tls(tls)).await;
    let guard = client.mutex("a").lock().await.expect("granted");
    assert!(client.mutex("a").try_lock().await.expect("a reply").is_none());
    guard.unlock().await.expect("released");
    close([client]).await;
}

/// Each configuration is wrong in another way. None hangs, and none connects.
pub(crate) async fn wrong_certificates_are_refused(backend: Backend) {
    let [ca, certificate, key] = certificates();
    let identified = Tls::new().client_identity(&certificate, &key);
    let wrong = [
        (
            "a CA that did not sign the server's",
            Some(identified.clone().ca_certificate(&certificate)),
        ),
        ("no certificate of its own", Some(Tls::new().ca_certificate(&ca))),
        ("no CA except those of the system", Some(identified)),
        ("no TLS at all", None),
    ];
    for (what, tls) in wrong {
        let builder = with_tls(backend).await.connect_timeout(Duration::from_secs(3));
        let builder = match tls {
            Some(tls) => builder.tls(tls),
            None => builder,
        };
        let error = within(SOON, what, builder.connect()).await.expect_err(what);
        let is_refused = matches!(error, Error::Denied { .. } | Error::Unavailable { .. });
        assert!(is_refused && error.source().is_some(), "{what}: {error:?}");
    }
}

/// Describes a client of an address without a server.
pub(crate) fn nobody(backend: Backend) -> Builder {
    let url = format!("{}://127.0.0.1:1", backend.scheme());
    Client::builder(url).connect_timeout(Duration::from_millis(500))
}

/// Fails if a text contains a secret, or part of a certificate's key. The clients are accepted,
/// refused, or find no server.
pub(crate) async fn has_no_secret(backend: Backend, mut shown: Shown) {
    let [ca, certificate, key] = certificates();
    let tls = Tls::new().ca_certificate(&ca).client_identity(&certificate, &key);
    let stranger = Tls::new().ca_certificate(&certificate).client_identity(&certificate, &key);
    let garbled =
        Tls::new().ca_certificate(&ca).client_identity(&certificate, key.replace('\n', " "));
    let mixed = Tls::new().ca_certificate(format!("{key}{ca}").replace('\n', " "));
    for tls in [tls, stranger, garbled, mixed] {
        for builder in [with_tls(backend).await, nobody(backend)] {
            let builder = builder.connect_timeout(Duration::from_secs(3)).tls(tls.clone());
            shown.builder(&builder.clone().credentials("app", "apppw")).await;
            shown.builder(&builder).await;
        }
    }
    shown.has_none_of(&["apppw", "wrong-s3cret"]);
    shown.has_none_of(&lines_of(&key));
}

/// Malformed PEM is refused before a request is sent.
pub(crate) async fn garbled_certificates_are_refused_by_name(backend: Backend) {
    let [ca, ..] = certificates();
    for tls in [
        Tls::new().ca_certificate("no PEM"),
        Tls::new().ca_certificate(ca).client_identity("no PEM", "no key"),
    ] {
        let builder = with_tls(backend).await.connect_timeout(Duration::from_secs(3));
        let error = refused(builder.tls(tls)).await;
        assert!(matches!(error, Error::InvalidArgument { argument: "tls", .. }), "{error:?}");
    }
}
