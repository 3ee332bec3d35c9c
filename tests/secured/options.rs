//! Settings that are refused before anything is sent.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use distlock::{Builder, Client, Credentials, Error, Tls};
use distlock_testkit::certificates::Ca;
use tokio::net::TcpListener;

use crate::common::{SOON, connected, refused, take_turn};

async fn misconfigured(builder: Builder, option: &str) -> String {
    let error = refused(builder).await;
    let Error::InvalidArgument { argument: named, reason, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(*named, option, "{error}");
    assert!(!error.to_string().contains("s3cret"), "{error}");
    reason.clone()
}

/// No host replies at that address (RFC 5737), so a connection attempt would take the whole
/// timeout.
#[tokio::test]
async fn plaintext_passwords_only_to_loopback() {
    for scheme in ["etcd", "zk"] {
        let url = format!("{scheme}://127.0.0.1:1,192.0.2.1:1");
        let builder = |url: &str| Client::builder(url).connect_timeout(Duration::from_millis(200));
        let reason = misconfigured(builder(&url).credentials("app", "s3cret"), "credentials").await;
        assert!(reason.contains("192.0.2.1:1") && reason.contains("allow_plaintext"), "{reason}");
        let in_url = url.replace("//", "//app:s3cret@");
        misconfigured(builder(&in_url), "credentials").await;
        let called = builder(&url).credentials_from(|| Ok(Credentials::new("app", "s3cret")));
        misconfigured(called, "credentials").await;
        let tls = Tls::new().ca_certificate(&Ca::new().pem);
        for tried in [
            builder(&url),
            builder(&url).credentials("app", "s3cret").allow_plaintext_credentials(),
            builder(&format!("{in_url}?allow_plaintext_credentials=true")),
            builder(&url).credentials("app", "s3cret").tls(tls),
            builder(&format!("{scheme}://127.0.0.1:1")).credentials("app", "s3cret"),
            builder(&format!("{scheme}://localhost:1")).credentials("app", "s3cret"),
        ] {
            let error = refused(tried).await;
            assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        }
    }
}

/// The client makes no connection.
#[tokio::test]
async fn bad_settings_are_refused_before_anything_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let etcd = || Client::builder(format!("etcd://{address}"));
    let zookeeper = || Client::builder(format!("zk://{address}"));
    let memory = || Client::builder("memory://options");
    for builder in [etcd().credentials("app", "s3cret"), memory()] {
        misconfigured(builder.clone().sasl(), "sasl").await;
        misconfigured(builder.acl("auth::cdrw"), "acl").await;
    }
    misconfigured(zookeeper().sasl(), "sasl").await;
    for acl in ["", "auth", "auth::x", "world:anyone"] {
        misconfigured(zookeeper().acl(acl), "acl").await;
    }
    for builder in [etcd(), zookeeper()] {
        misconfigured(builder.clone().password_file("app", "/nowhere/password"), "credentials")
            .await;
        misconfigured(
            builder.clone().credentials_from(|| Err(io::Error::other("no"))),
            "credentials",
        )
        .await;
        misconfigured(builder.clone().credentials_from(|| panic!("no")), "credentials").await;
        let nobody = || Ok(Credentials::new("", "s3cret"));
        misconfigured(builder.clone().credentials_from(nobody), "credentials").await;
        misconfigured(builder.clone().tls_from(|| Err(io::Error::other("no"))), "tls").await;
        let (one, other) = (Ca::new(), Ca::new());
        let (pair, another) = (one.issue("a", &[], SOON), other.issue("a", &[], SOON));
        let unfit =
            Tls::new().ca_certificate(&one.pem).client_identity(pair.certificate, another.key);
        misconfigured(builder.clone().tls(unfit), "tls").await;
        let unnamed = Tls::new().ca_certificate(&one.pem).server_name("not a name");
        misconfigured(builder.tls(unnamed), "tls").await;
    }
    let nothing = tokio::time::timeout(Duration::from_millis(100), listener.accept()).await;
    assert!(nothing.is_err(), "there is a connection");
}

/// The program's callback fails at times while the client lives.
#[tokio::test]
async fn failing_callback_keeps_last_value() {
    let fails = Arc::new(AtomicBool::new(false));
    let failing = Arc::clone(&fails);
    let client = Client::builder(distlock_testkit::backend::Backend::Etcd.url_with_users())
        .namespace(format!("/distlock-t-{:016x}", fastrand::u64(..)))
        .credentials_from(move || {
            assert!(!failing.load(SeqCst), "the callback fails");
            Ok(Credentials::new("app", "apppw"))
        });
    let client = connected(client).await;
    fails.store(true, SeqCst);
    tokio::time::sleep(Duration::from_millis(1100)).await;
    take_turn(&client, "a").await;
    client.close().await.unwrap();
}
