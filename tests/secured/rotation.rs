//! Certificates and passwords that are replaced while a lock is held.

use std::{
    io,
    sync::{Arc, Mutex as StdMutex},
    time::{Duration, Instant},
};

use distlock::{Builder, Client, Credentials, Error, LockGuard, Tls};
use distlock_testkit::{
    certificates::{Ca, Pair},
    framing::Framing,
    proxy::{Mode, Proxy},
};
use zookeeper_client as zk;

use crate::{
    common::{SOON, chain, close, connected, eventually, refused, release, take_turn, within},
    folder::Folder,
    own_etcd::{NAME, OwnEtcd, PASSWORD},
    own_zookeeper::OwnZooKeeper,
};

/// How long the first certificate is valid: long enough to acquire a lock on a busy machine.
const SHORT: Duration = Duration::from_secs(12);
/// A lock that is held for longer than this needs keepalives.
const TTL: Duration = Duration::from_secs(6);

/// Returns settings that read the folder's files.
fn from_files(folder: &Folder) -> Tls {
    Tls::new()
        .ca_certificate_file(folder.path("ca.pem"))
        .client_identity_files(folder.path("tls.crt"), folder.path("tls.key"))
}

fn files<'a>(ca: &'a str, pair: &'a Pair) -> [(&'static str, &'a str); 3] {
    [("ca.pem", ca), ("tls.crt", &pair.certificate), ("tls.key", &pair.key)]
}

/// Checks that the lock is held all the time, and that others can be acquired.
async fn goes_on(client: &Client, guard: &LockGuard, time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        assert!(guard.is_valid(), "lost after {:?}", start.elapsed());
        let other = within(SOON, "another lock is granted", client.mutex("other").lock()).await;
        let other = other.unwrap_or_else(|error| panic!("{}", chain(&error)));
        other.unlock().await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The client's certificate is replaced, and the old one expires: held locks continue on open
/// connections, and new connections use the new certificate. A client with only the old one is
/// refused.
async fn a_certificate_is_replaced(
    builder: impl Fn(&Proxy, Tls) -> Builder,
    proxy: Proxy,
    ca: &str,
    issue: impl Fn(Duration) -> Pair,
    wanted: impl Fn(Tls) -> Tls,
) {
    let began = Instant::now();
    let old = issue(SHORT);
    let folder = Folder::new(&files(ca, &old));
    let client = builder(&proxy, wanted(from_files(&folder))).connect().await;
    let client = client.unwrap_or_else(|error| panic!("{}", chain(&error)));
    let guard = client.mutex("held").lock().await.unwrap();
    // A certificate without its key is not used.
    let new = issue(Duration::from_secs(3600));
    folder.replace(&[("ca.pem", ca), ("tls.crt", &new.certificate), ("tls.key", &old.key)]);
    goes_on(&client, &guard, Duration::from_millis(1500)).await;
    folder.replace(&files(ca, &new));
    goes_on(&client, &guard, SHORT.saturating_sub(began.elapsed()) + Duration::from_secs(1)).await;
    // All connections end: their replacements need a valid certificate.
    let before = proxy.accepted();
    proxy.hang_up();
    goes_on(&client, &guard, TTL + Duration::from_secs(1)).await;
    assert!(proxy.accepted() > before);
    let late = Tls::new().ca_certificate(ca).client_identity(old.certificate, old.key);
    let error = refused(builder(&proxy, wanted(late))).await;
    assert!(matches!(error, Error::Denied { .. }), "{}", chain(&error));
    guard.unlock().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_etcd_has_its_certificate_replaced() {
    let etcd = OwnEtcd::start("simple").await;
    let proxy = Proxy::start(etcd.address, None::<Framing>).await;
    let builder = |proxy: &Proxy, tls| {
        let builder = etcd.builder_by(proxy.address).credentials("app", PASSWORD);
        builder.session_ttl(TTL).tls(tls)
    };
    let wanted = |tls: Tls| tls.server_name(NAME);
    let issue = |valid| etcd.issue(valid);
    a_certificate_is_replaced(builder, proxy, &etcd.ca.pem, issue, wanted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_zookeeper_has_its_certificate_replaced() {
    let zookeeper = OwnZooKeeper::start().await;
    let proxy = Proxy::start(zookeeper.tls, None::<Framing>).await;
    let builder = zookeeper.builder_by(proxy.address);
    let builder = |_: &Proxy, tls| builder.clone().session_ttl(TTL).tls(tls);
    let issue = |valid| zookeeper.issue(valid);
    a_certificate_is_replaced(builder, proxy, &zookeeper.ca.pem, issue, |tls| tls).await;
}

/// The server gets a new certificate from another CA. A client that has trusted both beforehand
/// keeps its locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_has_its_certificate_replaced() {
    let etcd = OwnEtcd::start("simple").await;
    let proxy = Proxy::start(etcd.address, None::<Framing>).await;
    let own = etcd.issue(Duration::from_secs(3600));
    let folder = Folder::new(&files(&etcd.ca.pem, &own));
    let builder = |tls: Tls| {
        let builder = etcd.builder_by(proxy.address).credentials("app", PASSWORD);
        builder.session_ttl(TTL).tls(tls.server_name(NAME))
    };
    let client = connected(builder(from_files(&folder))).await;
    let guard = client.mutex("held").lock().await.unwrap();
    let next = Ca::new();
    folder.replace(&files(&format!("{}{}", etcd.ca.pem, next.pem), &own));
    goes_on(&client, &guard, Duration::from_millis(1500)).await;
    let server = next.issue("server", &[NAME, "localhost"], Duration::from_secs(3600));
    etcd.folder.replace(&[
        ("ca.pem", &etcd.ca.pem),
        ("server.pem", &server.certificate),
        ("server-key.pem", &server.key),
    ]);
    // The server reads them at each handshake.
    proxy.hang_up();
    goes_on(&client, &guard, TTL + Duration::from_secs(1)).await;
    let error = refused(builder(etcd.tls())).await;
    assert!(chain(&error).contains("untrusted CA"), "{}", chain(&error));
    guard.unlock().await.unwrap();
    client.close().await.unwrap();
}

/// The program's password, which can be replaced.
#[derive(Clone)]
struct Known(Arc<StdMutex<String>>);

impl Known {
    fn new(password: &str) -> Self {
        Self(Arc::new(StdMutex::new(password.to_owned())))
    }

    fn set(&self, password: &str) {
        password.clone_into(&mut self.0.lock().unwrap());
    }

    fn newest(self, user: &'static str) -> impl Fn() -> io::Result<Credentials> {
        move || {
            let password = self.0.lock().map_err(|_| io::Error::other("no password"))?;
            Ok(Credentials::new(user, password.as_str()))
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_etcd_has_its_password_replaced() {
    let etcd = OwnEtcd::start("simple").await;
    let (known, folder) = (Known::new(PASSWORD), Folder::new(&[("password", PASSWORD)]));
    let builder = etcd.builder().tls(etcd.tls()).session_ttl(TTL);
    let by_callback = builder.clone().credentials_from(known.clone().newest("app"));
    let by_file = builder.clone().password_file("app", folder.path("password"));
    let (by_callback, by_file) = (by_callback.connect().await, by_file.connect().await);
    let (by_callback, by_file) = (by_callback.unwrap(), by_file.unwrap());
    let (called, filed) = (by_callback.mutex("called").lock().await.unwrap(), {
        let mutex = by_file.mutex("filed");
        mutex.lock().await.unwrap()
    });
    // The program has it first: the old connection is used until the server has it, too.
    known.set("second-s3cret");
    folder.replace(&[("password", "second-s3cret")]);
    goes_on(&by_callback, &called, Duration::from_millis(2500)).await;
    goes_on(&by_file, &filed, Duration::from_millis(1500)).await;
    etcd.change_password("second-s3cret").await;
    goes_on(&by_callback, &called, TTL + Duration::from_secs(1)).await;
    goes_on(&by_file, &filed, TTL + Duration::from_secs(1)).await;
    // The server has it first: until the program has it, the client is denied, but keeps its locks.
    etcd.change_password("third-s3cret").await;
    let error = within(SOON, "denied", by_callback.mutex("other").lock()).await.unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{}", chain(&error));
    known.set("third-s3cret");
    folder.replace(&[("password", "third-s3cret")]);
    goes_on(&by_callback, &called, TTL + Duration::from_secs(1)).await;
    goes_on(&by_file, &filed, Duration::from_secs(1)).await;
    release([called, filed]).await;
    let old = refused(builder.credentials("app", PASSWORD)).await;
    assert!(matches!(old, Error::Denied { .. }), "{}", chain(&old));
    close([by_callback, by_file]).await;
}

/// With `digest`, another password is another user, so the ACL has to name both. Sessions keep
/// their user; the next session belongs to the new user.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_zookeeper_has_its_password_replaced() {
    let zookeeper = OwnZooKeeper::start().await;
    let proxy = Proxy::start(zookeeper.plain, Framing::Jute).await;
    let known = Known::new("first-s3cret");
    let builder = zookeeper.builder_by(proxy.address).session_ttl(TTL);
    let mut ids = Vec::new();
    for password in ["first-s3cret", "second-s3cret"] {
        ids.push(format!("digest:{}:cdrw", digest(&zookeeper, "app", password).await));
    }
    let builder = builder.acl(ids.join(","));
    let client = builder.clone().credentials_from(known.clone().newest("app"));
    let client = connected(client).await;
    let guard = client.mutex("held").lock().await.unwrap();
    known.set("second-s3cret");
    goes_on(&client, &guard, TTL + Duration::from_secs(1)).await;
    let next = connected(builder.clone().credentials("app", "second-s3cret")).await;
    assert!(next.mutex("held").try_lock().await.unwrap().is_none());
    guard.unlock().await.unwrap();
    take_turn(&next, "held").await;
    let theirs = builder.clone().credentials("app", "second-s3cret").acl("auth::cdrw");
    theirs.connect().await.unwrap().mutex("theirs").lock().await.unwrap().unlock().await.unwrap();
    let error = client.mutex("theirs").lock().await.unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{}", chain(&error));
    let guard = client.mutex("held").lock().await.unwrap();
    proxy.set(Mode::Refuse);
    within(SOON, "the session is over", guard.lost()).await;
    proxy.set(Mode::Pass);
    eventually(SOON, "the client has a session of the new user", async || {
        match client.mutex("theirs").lock().await {
            Ok(guard) => guard.unlock().await.is_ok(),
            Err(_) => false,
        }
    })
    .await;
    client.close().await.unwrap();
}

/// Returns ZooKeeper's name of a user with a password.
async fn digest(zookeeper: &OwnZooKeeper, user: &str, password: &str) -> String {
    let connector =
        zk::Client::connector().with_auth("digest", format!("{user}:{password}").as_bytes());
    let client = connector.connect(&zookeeper.plain.to_string()).await.unwrap();
    let path = format!("/id-{:x}", fastrand::u64(..));
    let node = zk::CreateMode::Ephemeral.with_acls(zk::Acls::creator_all());
    client.create(&path, b"", &node).await.unwrap();
    let (acl, _) = client.get_acl(&path).await.unwrap();
    acl[0].id().to_owned()
}
