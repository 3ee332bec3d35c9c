//! Users, passwords and certificates.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use distlock::{Builder, Client, Error};
use distlock_testkit::{backend::Backend, framing::Framing, proxy::Proxy, servers::endpoints};
use etcd_client::{GetOptions, Permission};

use crate::common::{
    SOON, Waiter,
    cases::secured::{has_no_secret, namespace, nobody, with_users},
    cases_of, close, connected,
    etcd::Etcd,
    eventually, handover, refused,
    secrets::Shown,
    take_turn, throughout, within,
};

cases_of! { Etcd, Backend::Etcd,
    secured::valid_certificates_are_accepted,
    secured::wrong_certificates_are_refused,
    secured::garbled_certificates_are_refused_by_name,
}

async fn app() -> Builder {
    with_users(Backend::Etcd).await.credentials("app", "apppw")
}

#[tokio::test]
async fn a_user_with_a_password_is_let_in() {
    let client = connected(app().await).await;
    let guard = client.mutex("a").lock().await.unwrap();
    assert!(client.mutex("a").try_lock().await.unwrap().is_none());
    guard.unlock().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn wrong_passwords_are_denied() {
    for (user, password) in [("app", "wrong"), ("nobody", "apppw"), ("app", "")] {
        let error = refused(with_users(Backend::Etcd).await.credentials(user, password)).await;
        assert!(matches!(error, Error::Denied { .. }), "{user}: {error:?}");
        assert!(!error.is_retryable());
        let shown = format!("{error:?} {error}");
        assert!(password.is_empty() || !shown.contains(password), "{shown}");
    }
}

#[tokio::test]
async fn a_client_without_a_user_is_denied() {
    let error = match with_users(Backend::Etcd).await.connect().await {
        Err(error) => error,
        // The server grants a lease without a user, and refuses a lock.
        Ok(client) => {
            within(SOON, "the lock is refused", client.mutex("a").lock()).await.unwrap_err()
        }
    };
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
}

#[tokio::test]
async fn users_are_kept_to_their_namespaces() {
    let client = connected(app().await.namespace("/elsewhere")).await;
    for outcome in [client.mutex("a").lock().await.map(Some), client.mutex("a").try_lock().await] {
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Denied { .. }), "{error:?}");
        assert!(!error.is_retryable());
    }
    // The client still works.
    client.close().await.unwrap();
}

/// Auth tokens expire after 5 s. A holder and a waiter keep their places through three of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_and_waiters_outlive_their_auth_tokens() {
    let builder = app().await.session_ttl(Duration::from_secs(6));
    let (client, other) = (connected(builder.clone()).await, connected(builder).await);
    let idle = client.clone();
    let guard = client.mutex("a").lock().await.unwrap();
    let token = guard.fencing_token();
    let waiter = Waiter::of(&other, "a");
    let start = Instant::now();
    tokio::select! {
        reason = guard.lost() => panic!("lost after {:?}: {reason}", start.elapsed()),
        () = tokio::time::sleep(Duration::from_secs(16)) => {}
    }
    assert!(guard.is_valid() && waiter.waits());
    let next = handover(guard, waiter).await;
    assert!(next.fencing_token() > token);
    next.unlock().await.unwrap();
    take_turn(&idle, "b").await;
    close([client, other]).await;
}

/// A user of one test, which the operator may change.
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
        let builder = Client::builder(format!("etcd://{address}")).namespace(&self.namespace);
        let builder = builder.credentials(&self.name, Self::PASSWORD);
        connected(builder.session_ttl(Duration::from_secs(4))).await
    }

    async fn keys(&self) -> usize {
        let options = GetOptions::new().with_prefix().with_keys_only();
        let mut keys = self.operator.kv_client();
        let found = keys.get(self.namespace.as_str(), Some(options)).await;
        found.expect("the operator may").kvs().len()
    }

    async fn change_password(&self, password: &str) {
        let mut auth = self.operator.auth_client();
        auth.user_change_password(self.name.as_str(), password).await.expect("the operator may");
    }

    async fn remove(self) {
        let mut auth = self.operator.auth_client();
        auth.user_delete(self.name.as_str()).await.expect("the operator may");
        auth.role_delete(self.name.as_str()).await.expect("the operator may");
    }
}

/// The operator changes the password of a client with a lock. The lock is held as long as the
/// server renews its lease. Refusals are reported as `Denied`, and not retried in a storm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_password_is_denied_without_a_reconnect_storm() {
    let user = User::new().await;
    let url = Backend::Etcd.url_with_users();
    let proxy = Proxy::start(endpoints(&url).await[0], Framing::Http2).await;
    let client = user.client(proxy.address).await;
    let guard = client.mutex("a").lock().await.unwrap();
    user.change_password("another").await;
    for _ in 0..3 {
        let error =
            within(SOON, "the lock is refused", client.mutex("b").lock()).await.unwrap_err();
        assert!(matches!(error, Error::Denied { .. }), "{error:?}");
        assert!(!error.is_retryable());
    }
    let before = proxy.accepted();
    throughout(Duration::from_secs(4), "a valid lock has a key", async || {
        !guard.is_valid() || user.keys().await == 1
    })
    .await;
    // The server verifies a password for each connection.
    let connections = proxy.accepted() - before;
    println!("held: {}, {connections} connections in 4 s", guard.is_valid());
    assert!(connections < 24, "{connections} connections in 4 s");
    // Whatever happened to the lock, its key is deleted with the client's lease.
    drop(guard);
    user.change_password(User::PASSWORD).await;
    eventually(SOON, "the key is deleted", async || user.keys().await == 0).await;
    user.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_role_is_denied_until_granted_again() {
    let user = User::new().await;
    let url = Backend::Etcd.url_with_users();
    let client = user.client(endpoints(&url).await[0]).await;
    let guard = client.mutex("a").lock().await.unwrap();
    let (mut auth, name) = (user.operator.auth_client(), user.name.as_str());
    auth.user_revoke_role(name, name).await.unwrap();
    let error = within(SOON, "the lock is refused", client.mutex("b").lock()).await.unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    let error = within(SOON, "the release is refused", guard.unlock()).await.unwrap_err();
    assert!(matches!(error, Error::Denied { .. } | Error::Lost { .. }), "{error:?}");
    assert_eq!(user.keys().await, 1);
    auth.user_grant_role(name, name).await.unwrap();
    eventually(SOON, "the release arrives", async || user.keys().await == 0).await;
    take_turn(&client, "b").await;
    close([client]).await;
    user.remove().await;
}

/// The output is checked for clients that connect, are refused, or find no server.
#[tokio::test]
async fn output_contains_no_secret() {
    let mut shown = Shown::default();
    for builder in [with_users(Backend::Etcd).await, nobody(Backend::Etcd)] {
        shown.builder(&builder.clone().credentials("app", "apppw")).await;
        shown.builder(&builder.credentials("app", "wrong-s3cret")).await;
    }
    let client = connected(app().await.namespace("/elsewhere")).await;
    shown.error("Denied", &client.mutex("a").lock().await.unwrap_err());
    has_no_secret(Backend::Etcd, shown).await;
}
