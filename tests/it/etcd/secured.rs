//! Users, passwords and certificates.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use distlock::{Builder, Client, Error, Tls};
use distlock_testkit::{
    backend::Backend,
    framing::Framing,
    proxy::Proxy,
    servers::{certificates, endpoints},
};
use etcd_client::{GetOptions, Permission};

use crate::common::{
    case::{SOON, eventually, throughout, within},
    secrets::{Shown, lines_of},
};

/// The user `app` may touch what begins with `/distlock`.
fn namespace() -> String {
    format!("/distlock-t-{:016x}", fastrand::u64(..))
}

async fn with_users() -> Builder {
    let url = Backend::Etcd.url_with_users();
    endpoints(&url).await;
    Client::builder(&url).namespace(namespace())
}

async fn with_tls() -> Builder {
    let url = Backend::Etcd.url_with_tls();
    endpoints(&url).await;
    Client::builder(&url).namespace(namespace())
}

#[tokio::test]
async fn a_user_with_a_password_is_let_in() {
    let client = with_users().await.credentials("app", "apppw").connect().await.unwrap();
    let guard = client.mutex("a").lock().await.unwrap();
    assert!(client.mutex("a").try_lock().await.unwrap().is_none());
    guard.unlock().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn wrong_passwords_are_denied() {
    for (user, password) in [("app", "wrong"), ("nobody", "apppw"), ("app", "")] {
        let connecting = with_users().await.credentials(user, password).connect();
        let error = within(SOON, "it is refused", connecting).await.unwrap_err();
        assert!(matches!(error, Error::Denied { .. }), "{user}: {error:?}");
        assert!(!error.is_retryable());
        let shown = format!("{error:?} {error}");
        assert!(password.is_empty() || !shown.contains(password), "{shown}");
    }
}

#[tokio::test]
async fn nobody_without_a_user_is_let_in() {
    let error = match with_users().await.connect().await {
        Err(error) => error,
        // A lease may be had without a user; a lock may not.
        Ok(client) => within(SOON, "it is refused", client.mutex("a").lock()).await.unwrap_err(),
    };
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
}

#[tokio::test]
async fn users_are_kept_to_their_namespaces() {
    let elsewhere = with_users().await.namespace("/elsewhere").credentials("app", "apppw");
    let client = elsewhere.connect().await.unwrap();
    for outcome in [client.mutex("a").lock().await.map(Some), client.mutex("a").try_lock().await] {
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Denied { .. }), "{error:?}");
        assert!(!error.is_retryable());
    }
    // It is still a client in good standing.
    client.close().await.unwrap();
}

/// Tokens end after 5 s: a lock is held through three of them, a waiter waits through them, and
/// both go on as if nothing had been.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_and_waiters_outlive_their_auth_tokens() {
    let builder =
        with_users().await.credentials("app", "apppw").session_ttl(Duration::from_secs(6));
    let (client, other) =
        (builder.clone().connect().await.unwrap(), builder.connect().await.unwrap());
    let idle = client.clone();
    let guard = client.mutex("a").lock().await.unwrap();
    let token = guard.fencing_token();
    let mutex = other.mutex("a");
    let waiter = tokio::spawn(async move { mutex.lock().await });
    let start = Instant::now();
    tokio::select! {
        reason = guard.lost() => panic!("lost after {:?}: {reason}", start.elapsed()),
        () = tokio::time::sleep(Duration::from_secs(16)) => {}
    }
    assert!(guard.is_valid() && !waiter.is_finished());
    guard.unlock().await.unwrap();
    let next = within(SOON, "the waiter hears of it", waiter).await.unwrap().unwrap();
    assert!(next.fencing_token() > token);
    next.unlock().await.unwrap();
    idle.mutex("b").lock().await.unwrap().unlock().await.unwrap();
    client.close().await.unwrap();
    other.close().await.unwrap();
}

/// A user of one test's own, whom the operator may do things to.
struct User {
    name: String,
    namespace: String,
    operator: etcd_client::Client,
}

impl User {
    const PASSWORD: &str = "secret";

    async fn new() -> Self {
        let url = Backend::Etcd.url_with_users();
        let address = endpoints(&url).await[0];
        let options = etcd_client::ConnectOptions::new().with_user("root", "rootpw");
        let operator = etcd_client::Client::connect([format!("http://{address}")], Some(options))
            .await
            .expect("the operator may");
        let (name, namespace) = (format!("user-{:016x}", fastrand::u64(..)), namespace());
        let mut auth = operator.auth_client();
        auth.user_add(name.as_str(), Self::PASSWORD, None).await.expect("the operator may");
        auth.role_add(name.as_str()).await.expect("the operator may");
        let permission = Permission::read_write(format!("{namespace}/")).with_prefix();
        auth.role_grant_permission(name.as_str(), permission).await.expect("the operator may");
        auth.user_grant_role(name.as_str(), name.as_str()).await.expect("the operator may");
        Self { name, namespace, operator }
    }

    async fn client(&self, address: SocketAddr) -> Client {
        let builder =
            Client::builder(format!("etcd://{address}")).credentials(&self.name, Self::PASSWORD);
        builder
            .namespace(&self.namespace)
            .session_ttl(Duration::from_secs(4))
            .connect()
            .await
            .expect("the operator may")
    }

    async fn keys(&self) -> usize {
        let options = GetOptions::new().with_prefix().with_keys_only();
        self.operator
            .kv_client()
            .get(self.namespace.as_str(), Some(options))
            .await
            .expect("the operator may")
            .kvs()
            .len()
    }

    async fn remove(self) {
        let mut auth = self.operator.auth_client();
        auth.user_delete(self.name.as_str()).await.expect("the operator may");
        auth.role_delete(self.name.as_str()).await.expect("the operator may");
    }
}

/// The operator's doing reaches a holder and its client while both are at work. What the server
/// still renews is held; what it refuses is told as it is, and not asked for again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_changed_on_the_way_is_denied_without_a_storm() {
    let user = User::new().await;
    let url = Backend::Etcd.url_with_users();
    let proxy = Proxy::start(endpoints(&url).await[0], Framing::Http2).await;
    let client = user.client(proxy.address).await;
    let guard = client.mutex("a").lock().await.unwrap();
    user.operator.auth_client().user_change_password(user.name.as_str(), "another").await.unwrap();
    for _ in 0..3 {
        let error = within(SOON, "it is refused", client.mutex("b").lock()).await.unwrap_err();
        assert!(matches!(error, Error::Denied { .. }), "{error:?}");
        assert!(!error.is_retryable());
    }
    let before = proxy.accepted();
    throughout(Duration::from_secs(4), "a valid lock has a key", async || {
        !guard.is_valid() || user.keys().await == 1
    })
    .await;
    // Each one brings a password for the server to look at.
    let connections = proxy.accepted() - before;
    println!("held: {}, {connections} connections in 4 s", guard.is_valid());
    assert!(connections < 24, "{connections} connections in 4 s");
    // Whatever becomes of it: the key goes with the client's lease.
    drop(guard);
    user.operator
        .auth_client()
        .user_change_password(user.name.as_str(), User::PASSWORD)
        .await
        .unwrap();
    eventually(SOON, "the key is gone", async || user.keys().await == 0).await;
    user.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_taken_away_on_the_way_is_denied_until_it_is_back() {
    let user = User::new().await;
    let url = Backend::Etcd.url_with_users();
    let client = user.client(endpoints(&url).await[0]).await;
    let guard = client.mutex("a").lock().await.unwrap();
    user.operator
        .auth_client()
        .user_revoke_role(user.name.as_str(), user.name.as_str())
        .await
        .unwrap();
    let error = within(SOON, "it is refused", client.mutex("b").lock()).await.unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    let error = within(SOON, "it is refused", guard.unlock()).await.unwrap_err();
    assert!(matches!(error, Error::Denied { .. } | Error::Lost { .. }), "{error:?}");
    assert_eq!(user.keys().await, 1);
    user.operator
        .auth_client()
        .user_grant_role(user.name.as_str(), user.name.as_str())
        .await
        .unwrap();
    eventually(SOON, "the release gets through", async || user.keys().await == 0).await;
    client.mutex("b").lock().await.unwrap().unlock().await.unwrap();
    client.close().await.unwrap();
    user.remove().await;
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
        ("no CA but the usual ones", Some(Tls::new().client_identity(&certificate, &key))),
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

/// PEM that is none is told before a server is asked.
#[tokio::test]
async fn garbled_certificates_are_told() {
    let [ca, ..] = certificates();
    for tls in [
        Tls::new().ca_certificate("no PEM"),
        Tls::new().ca_certificate(ca).client_identity("no PEM", "no key"),
    ] {
        let connecting =
            with_tls().await.connect_timeout(Duration::from_secs(3)).tls(tls).connect();
        let error = within(SOON, "it is told", connecting).await.unwrap_err();
        assert!(matches!(error, Error::InvalidConfig { option: "tls", .. }), "{error:?}");
    }
}

/// Whether they are let in, refused, or find nobody.
#[tokio::test]
async fn nothing_that_is_shown_has_a_secret() {
    let [ca, certificate, key] = certificates();
    let mut shown = Shown::default();
    let nobody =
        || Client::builder("etcd://127.0.0.1:1").connect_timeout(Duration::from_millis(500));
    for builder in [with_users().await, nobody()] {
        shown.builder(&builder.clone().credentials("app", "apppw")).await;
        shown.builder(&builder.credentials("app", "wrong-s3cret")).await;
    }
    let users = with_users().await.credentials("app", "apppw").namespace("/elsewhere");
    let client = users.connect().await.unwrap();
    shown.error("Denied", &client.mutex("a").lock().await.unwrap_err());
    let tls = Tls::new().ca_certificate(&ca).client_identity(&certificate, &key);
    let stranger = Tls::new().ca_certificate(&certificate).client_identity(&certificate, &key);
    let garbled =
        Tls::new().ca_certificate(&ca).client_identity(&certificate, key.replace('\n', " "));
    for tls in [tls, stranger, garbled] {
        for builder in [with_tls().await, nobody()] {
            let builder =
                builder.connect_timeout(Duration::from_secs(3)).credentials("app", "apppw");
            shown.builder(&builder.tls(tls.clone())).await;
        }
        shown.builder(&with_tls().await.connect_timeout(Duration::from_secs(3)).tls(tls)).await;
    }
    shown.has_none_of(&["apppw", "wrong-s3cret"]);
    shown.has_none_of(&lines_of(&key));
}
