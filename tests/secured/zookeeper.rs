//! ZooKeeper: certificates, digest, SASL and ACLs, right and wrong.

use std::time::{Duration, Instant};

use distlock::{Client, Error, Tls};
use distlock_testkit::certificates::{Ca, LONG, Pair};

use crate::{
    common::{SOON, chain, connected, refused, within},
    folder::Folder,
    own_zookeeper::{OTHER_PASSWORD, OwnZooKeeper, PASSWORD, namespace},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zookeeper_security_is_enforced() {
    let zookeeper = OwnZooKeeper::start().await;
    a_url_names_certificates_and_password(&zookeeper).await;
    wrong_credentials_are_reported_by_cause(&zookeeper).await;
    users_of_sasl_are_checked(&zookeeper).await;
    certificates_own_nodes(&zookeeper).await;
    others_may_look(&zookeeper).await;
}

async fn locks(client: &Client) {
    let guard = client.mutex("a").lock().await.unwrap();
    assert!(client.mutex("a").try_lock().await.unwrap().is_none());
    guard.unlock().await.unwrap();
}

async fn is_denied(client: &Client) {
    let error = within(SOON, "the client is refused", client.mutex("a").lock()).await.unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    println!("{}", chain(&error));
}

async fn a_url_names_certificates_and_password(zookeeper: &OwnZooKeeper) {
    let Pair { certificate, key } = zookeeper.issue(LONG);
    let folder = Folder::new(&[
        ("ca.pem", &zookeeper.ca.pem),
        ("tls.crt", &certificate),
        ("tls.key", &key),
        ("password", PASSWORD),
    ]);
    let [ca, certificate, key, password] =
        ["ca.pem", "tls.crt", "tls.key", "password"].map(|name| folder.path(name));
    for sasl in ["", "&sasl=true"] {
        let url = format!(
            "zks://app@{}{}?ca_file={ca}&cert_file={certificate}&key_file={key}\
             &password_file={password}{sasl}",
            zookeeper.tls,
            namespace()
        );
        let client =
            Client::connect(&url).await.unwrap_or_else(|error| panic!("{}", chain(&error)));
        locks(&client).await;
        client.close().await.unwrap();
    }
}

async fn wrong_credentials_are_reported_by_cause(zookeeper: &OwnZooKeeper) {
    let (ca, own) = (&zookeeper.ca.pem, zookeeper.issue(LONG));
    let (stranger, expired) = (Ca::new(), zookeeper.issue(Duration::ZERO));
    let foreign = stranger.issue("client", &[], LONG);
    let tls = |ca: &str, pair: &Pair| {
        Tls::new().ca_certificate(ca).client_identity(&pair.certificate, &pair.key)
    };
    let at = |address: String| {
        let builder = Client::builder(format!("zks://{address}")).namespace(namespace());
        builder.connect_timeout(Duration::from_secs(5))
    };
    let here = || at(zookeeper.tls.to_string());
    let sasl = |user: &str, password: &str| zookeeper.builder().credentials(user, password).sasl();
    for (what, builder, text) in [
        ("SASL password", sasl("app", "wrong-s3cret"), "rejected the user or the password"),
        ("SASL user", sasl("nobody", PASSWORD), "rejected the user or the password"),
        ("CA", here().tls(tls(&stranger.pem, &own)), "untrusted CA"),
        (
            "name",
            at(format!("localhost:{}", zookeeper.tls.port())).tls(tls(ca, &own)),
            "is not valid for the host",
        ),
        ("no certificate", here().tls(Tls::new().ca_certificate(ca)), "Tls::client_identity"),
        ("another CA's client", here().tls(tls(ca, &foreign)), "rejected the client's"),
        ("expired", here().tls(tls(ca, &expired)), "rejected the client's"),
    ] {
        let start = Instant::now();
        let error = refused(builder).await;
        let text_told = chain(&error);
        println!("{what}, {:?}: {text_told}", start.elapsed());
        assert!(matches!(error, Error::Denied { .. }), "{what}: {error:?}");
        assert!(text_told.contains(text), "{what}: {text_told}");
    }
    // Unsupported settings are reported before anything is sent.
    let named = tls(ca, &own).server_name("zookeeper.internal");
    let error = refused(here().tls(named)).await;
    assert!(matches!(error, Error::InvalidArgument { argument: "tls", .. }), "{error:?}");
}

/// Users are checked by their passwords, and then by their rights.
async fn users_of_sasl_are_checked(zookeeper: &OwnZooKeeper) {
    let builder = zookeeper.builder();
    let app = connected(builder.clone().credentials("app", PASSWORD).sasl()).await;
    locks(&app).await;
    let colleague = connected(builder.clone().credentials("app", PASSWORD).sasl()).await;
    locks(&colleague).await;
    let other = builder.clone().credentials("other", OTHER_PASSWORD).sasl().connect();
    is_denied(&other.await.unwrap()).await;
    is_denied(&builder.clone().connect().await.unwrap()).await;
    // The same user and password with the other scheme is another user.
    is_denied(&builder.credentials("app", PASSWORD).connect().await.unwrap()).await;
}

/// A client with a certificate needs no password: the subject is its user.
async fn certificates_own_nodes(zookeeper: &OwnZooKeeper) {
    let builder = || {
        let url = format!("zks://{}/x509", zookeeper.tls);
        Client::builder(url).acl("auth::cdrw")
    };
    let client = connected(builder().tls(zookeeper.material())).await;
    locks(&client).await;
    let other = zookeeper.ca.issue("somebody else", &[], LONG);
    let other =
        Tls::new().ca_certificate(&zookeeper.ca.pem).client_identity(other.certificate, other.key);
    is_denied(&builder().tls(other).connect().await.unwrap()).await;
}

async fn others_may_look(zookeeper: &OwnZooKeeper) {
    let builder = zookeeper.builder();
    let app = builder.clone().credentials("app", PASSWORD).acl("auth::cdrw,world:anyone:r");
    let app = connected(app).await;
    let guard = app.mutex("a").lock().await.unwrap();
    let looking = connected(builder).await;
    let queue = looking.mutex("a").queue().await.unwrap();
    assert_eq!(queue.len(), 1, "{queue:?}");
    is_denied(&looking).await;
    guard.unlock().await.unwrap();
}
