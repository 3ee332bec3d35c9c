#[cfg(not(feature = "zookeeper-tls"))]
use crate::Tls;
use crate::{Client, Error};

/// Without a password, there is nothing to protect.
#[tokio::test]
async fn a_user_without_a_password_needs_no_tls() {
    let is_refused = |url: &str| {
        let error = Client::builder(url).connect_lazy().err();
        matches!(error, Some(Error::InvalidArgument { argument: "credentials", .. }))
    };
    for user in ["postgres://app", "mysql://app", "redis://app:", "redlock://app:"] {
        assert!(!is_refused(&format!("{user}@192.0.2.1/0")), "{user}");
    }
    assert!(is_refused("postgres://app:s3cret@192.0.2.1/db"));
    assert!(is_refused("mysql://app@192.0.2.1/db?password_file=/dev/null"));
}

const BY_TLS: [&str; 6] = [
    "etcds://192.0.2.1",
    "postgres://192.0.2.1/db?sslmode=require",
    "mysql://192.0.2.1/db?sslmode=verify-full",
    "rediss://192.0.2.1",
    "rediss+sentinel://192.0.2.1/main",
    "redlocks://192.0.2.1,192.0.2.2,192.0.2.3",
];

#[cfg(not(any(feature = "tls", feature = "tls-ring")))]
#[tokio::test]
async fn tls_names_the_feature_that_it_needs() {
    let by_option = ["etcd://192.0.2.1", "postgres://192.0.2.1/db"];
    let by_option = by_option.map(|url| Client::builder(url).tls(Tls::new()));
    for builder in BY_TLS.map(Client::builder).into_iter().chain(by_option) {
        let error = builder.connect_lazy().err();
        let Some(Error::InvalidArgument { argument: "tls", reason }) = &error else {
            panic!("{error:?}")
        };
        assert!(reason.contains("feature `tls` or `tls-ring`"), "{reason}");
    }
}

#[cfg(any(feature = "tls", feature = "tls-ring"))]
#[tokio::test]
async fn tls_needs_no_ca() {
    let zookeeper = cfg!(feature = "zookeeper-tls").then_some("zks://192.0.2.1");
    for url in BY_TLS.into_iter().chain(zookeeper) {
        match Client::builder(url).connect_lazy() {
            Ok(_) | Err(Error::FeatureDisabled { .. }) => {}
            // This machine has no certificates.
            Err(Error::InvalidArgument { argument: "tls", reason }) => {
                assert!(reason.contains("no root certificates"), "{url}: {reason}");
            }
            Err(other) => panic!("{url}: {other:?}"),
        }
    }
}

#[cfg(any(feature = "tls", feature = "tls-ring"))]
#[tokio::test]
async fn encrypted_key_is_refused() {
    for kind in ["ENCRYPTED PRIVATE KEY-----", "RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED"] {
        let key = format!("-----BEGIN {kind}\nMA==\n-----END PRIVATE KEY-----\n");
        let certificate = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n";
        let tls = crate::Tls::new().client_identity(certificate, key);
        let error = Client::builder("postgres://192.0.2.1/db").tls(tls).connect_lazy().err();
        match error {
            Some(Error::InvalidArgument { argument: "tls", reason }) => {
                assert!(reason.contains("encrypted"), "{reason}");
            }
            other => assert!(matches!(other, Some(Error::FeatureDisabled { .. })), "{other:?}"),
        }
    }
}

#[cfg(not(feature = "zookeeper-tls"))]
#[tokio::test]
async fn tls_on_zookeeper_names_the_feature_that_it_needs() {
    for builder in [Client::builder("zks://192.0.2.1"), Client::builder("zk://h").tls(Tls::new())] {
        let error = builder.connect_lazy().err();
        let Some(Error::InvalidArgument { argument: "tls", reason }) = &error else {
            panic!("{error:?}")
        };
        assert!(reason.contains("feature `zookeeper-tls`"), "{reason}");
    }
}
