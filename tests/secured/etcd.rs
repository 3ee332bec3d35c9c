//! etcd: certificates, passwords and both, right and wrong.

use std::time::{Duration, Instant};

use distlock::{Client, Error, Tls};
use distlock_testkit::certificates::{Ca, LONG, Pair};
use etcd_client::UserAddOptions;

use crate::{
    common::{SOON, chain, close, connected, eventually, refused, take_turn, within},
    folder::Folder,
    own_etcd::{NAME, OwnEtcd, PASSWORD},
};

/// A URL contains all settings, as an operator writes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_names_certificates_and_password() {
    let etcd = OwnEtcd::start("simple").await;
    let Pair { certificate, key } = etcd.issue(LONG);
    let folder = Folder::new(&[
        ("ca.pem", &etcd.ca.pem),
        ("tls.crt", &certificate),
        ("tls.key", &key),
        ("password", &format!("{PASSWORD}\n")),
    ]);
    let files = format!(
        "ca_file={}&cert_file={}&key_file={}",
        folder.path("ca.pem"),
        folder.path("tls.crt"),
        folder.path("tls.key")
    );
    let (address, port) = (etcd.address, etcd.address.port());
    let password = folder.path("password");
    for url in [
        format!("etcds://app:{PASSWORD}@{address}/app/locks?{files}&server_name={NAME}"),
        format!(
            "etcds://app@localhost:{port}/app/locks?{files}&password_file={password}\
             &session_ttl=5s"
        ),
    ] {
        let client =
            Client::connect(&url).await.unwrap_or_else(|error| panic!("{}", chain(&error)));
        let guard = client.mutex("a").lock().await.unwrap();
        assert!(client.mutex("a").try_lock().await.unwrap().is_none());
        guard.unlock().await.unwrap();
        client.close().await.unwrap();
    }
}

/// Each client is wrong in a different way: it is refused at once, with an error that names the
/// reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_credentials_are_reported_by_cause() {
    let etcd = OwnEtcd::start("simple").await;
    let (ca, own) = (&etcd.ca.pem, etcd.issue(LONG));
    let (stranger, expired) = (Ca::new(), etcd.issue(Duration::ZERO));
    let foreign = stranger.issue("client", &[], LONG);
    let tls = |ca: &str, pair: &Pair| {
        Tls::new().ca_certificate(ca).client_identity(&pair.certificate, &pair.key)
    };
    let named = |tls: Tls| tls.server_name(NAME);
    let right = etcd.builder().tls(named(tls(ca, &own)));
    for (what, builder, text) in [
        (
            "password",
            right.clone().credentials("app", "wrong-s3cret"),
            "invalid user ID or password",
        ),
        ("user", right.clone().credentials("nobody", PASSWORD), "invalid user ID or password"),
        ("CA", etcd.builder().tls(named(tls(&stranger.pem, &own))), "untrusted CA"),
        ("name", etcd.builder().tls(tls(ca, &own)), "is not valid for the host"),
        (
            "no certificate",
            etcd.builder().tls(named(Tls::new().ca_certificate(ca))),
            "Tls::client_identity",
        ),
        (
            "another CA's client",
            etcd.builder().tls(named(tls(ca, &foreign))),
            "rejected the client's",
        ),
        ("expired", etcd.builder().tls(named(tls(ca, &expired))), "rejected the client's"),
    ] {
        let start = Instant::now();
        let error = refused(builder).await;
        let text_told = chain(&error);
        println!("{what}, {:?}: {text_told}", start.elapsed());
        assert!(matches!(error, Error::Denied { .. }), "{what}: {error:?}");
        assert!(text_told.contains(text), "{what}: {text_told}");
        assert!(text_told.contains(&etcd.address.to_string()), "{what}: {text_told}");
        assert!(!error.is_retryable());
    }
    // Without a password, the name in the certificate is the user, which the server does not know.
    let client = connected(right).await;
    let error = within(SOON, "the client is refused", client.mutex("a").lock()).await.unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    assert!(chain(&error).contains("permission denied"), "{}", chain(&error));
    let options = UserAddOptions::new().with_no_pwd();
    let mut auth = etcd.operator.auth_client();
    auth.user_add("client", "", Some(options)).await.unwrap();
    auth.user_grant_role("client", "app").await.unwrap();
    take_turn(&client, "a").await;
}

/// Tokens of this kind expire after 5 s even if they are used, and with every change of any user or
/// role. A lock is held, a waiter waits, and each request succeeds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_outlive_tokens_that_end_with_every_change_of_a_user() {
    let etcd = OwnEtcd::start("jwt,sign-method=HS256,priv-key=/secured/current/hmac,ttl=5s").await;
    let builder = etcd.builder().tls(etcd.tls()).credentials("app", PASSWORD);
    let builder = builder.session_ttl(Duration::from_secs(4));
    let client = connected(builder.clone()).await;
    let other = connected(builder).await;
    let guard = client.mutex("a").lock().await.unwrap();
    let mutex = other.mutex("a");
    let waiter = tokio::spawn(async move { mutex.lock().await });
    let start = Instant::now();
    let (mut changes, mut slowest) = (0, Duration::ZERO);
    while start.elapsed() < Duration::from_secs(12) {
        // An unrelated user is changed.
        let mut auth = etcd.operator.auth_client();
        let name = format!("user-{changes}");
        auth.user_add(name, "pw", None).await.unwrap();
        changes += 1;
        let began = Instant::now();
        let locked = within(SOON, "the lock is granted", client.mutex("b").lock()).await.unwrap();
        locked.unlock().await.unwrap();
        slowest = slowest.max(began.elapsed());
        assert!(guard.is_valid(), "after {:?}", start.elapsed());
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert!(!waiter.is_finished());
    guard.unlock().await.unwrap();
    let next = within(SOON, "the waiter is granted", waiter).await.unwrap().unwrap();
    next.unlock().await.unwrap();
    println!("{changes} changes, the slowest pair took {slowest:?}");
    close([client, other]).await;
}

/// The store starts later, with all of its requirements.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lazy_client_connects_after_store_starts() {
    let etcd = OwnEtcd::start("simple").await;
    let lazy = |password: &str| {
        let builder = etcd.builder().tls(etcd.tls()).credentials("app", password);
        builder.connect_lazy().unwrap()
    };
    let client = lazy(PASSWORD);
    assert_eq!(client.health(), distlock::Health::NotOpened);
    take_turn(&client, "a").await;
    client.close().await.unwrap();
    let error =
        within(SOON, "the client is refused", lazy("wrong-s3cret").ping()).await.unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    // Unreadable files are reported at once, also by a lazy client.
    let missing = Tls::new().ca_certificate_file("/nowhere/ca.pem");
    let error = etcd.builder().tls(missing).connect_lazy().unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { argument: "tls", .. }), "{error:?}");
    assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
    eventually(SOON, "the namespace is empty", async || {
        let options = etcd_client::GetOptions::new().with_prefix();
        let left = etcd.operator.kv_client().get("/app/locks", Some(options)).await.unwrap();
        left.kvs().is_empty()
    })
    .await;
}
