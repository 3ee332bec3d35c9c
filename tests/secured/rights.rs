//! The minimum rights that docs/ops/security.md lists: everything works with them, and not with one
//! right less.

use std::time::Duration;

use distlock::{Client, Error};
use etcd_client::{Permission, PermissionType};
use zookeeper_client as zk;

use crate::{
    common::{SOON, chain, connected, secrets::Shown, within},
    own_etcd::OwnEtcd,
    own_zookeeper::OwnZooKeeper,
};

/// Creates a role, and a user that has it.
async fn user(etcd: &OwnEtcd, name: &str, permissions: Vec<Permission>) -> Client {
    let mut auth = etcd.operator.auth_client();
    auth.user_add(name, "pw-s3cret", None).await.unwrap();
    auth.role_add(name).await.unwrap();
    for permission in permissions {
        auth.role_grant_permission(name, permission).await.unwrap();
    }
    auth.user_grant_role(name, name).await.unwrap();
    let builder = etcd.builder().tls(etcd.tls()).namespace("/locks");
    builder.credentials(name, "pw-s3cret").connect().await.unwrap()
}

fn denied<T: std::fmt::Debug>(what: &str, outcome: Result<T, Error>) {
    let error = outcome.unwrap_err();
    println!("{what}: {}", chain(&error));
    assert!(matches!(error, Error::Denied { .. }), "{what}: {error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn minimal_etcd_role_suffices() {
    let etcd = OwnEtcd::start("simple").await;
    let all = |key: &str| Permission::read_write(key).with_prefix();
    let client = user(&etcd, "exact", vec![all("/locks/")]).await;
    Shown::printed().client(&client).await;
    let guard = client.mutex("a").lock().await.unwrap();
    denied("data elsewhere", guard.put("/data/a", "1").await);
    guard.unlock().await.unwrap();
    client.close().await.unwrap();

    // A guarded write needs the right to write its key, and no other.
    let write = Permission::new(PermissionType::Write, "/data/a");
    let client = user(&etcd, "writer", vec![all("/locks/"), write]).await;
    let guard = client.mutex("a").lock().await.unwrap();
    guard.put("/data/a", "1").await.unwrap();
    denied("data elsewhere", guard.put("/data/b", "1").await);
    guard.unlock().await.unwrap();

    for (name, permission) in [
        ("reads", Permission::new(PermissionType::Read, "/locks/").with_prefix()),
        ("writes", Permission::new(PermissionType::Write, "/locks/").with_prefix()),
        ("one-lock", all("/locks/b/")),
        ("elsewhere", all("/lock/")),
    ] {
        let client = user(&etcd, name, vec![permission]).await;
        denied(name, within(SOON, name, client.mutex("a").lock()).await);
        client.close().await.unwrap();
    }
}

/// Uses everything that needs a right of ZooKeeper; returns what was refused.
async fn use_all(client: &Client) -> Result<(), (&'static str, Error)> {
    let refused = |what| move |error| (what, error);
    let mutex = client.mutex("a");
    let guard = mutex.lock().await.map_err(refused("lock"))?;
    let queue = client.mutex("a");
    let waiter = tokio::spawn(async move { mutex.lock().await });
    while queue.queue().await.map_err(refused("queue"))?.len() < 2 {}
    guard.unlock().await.map_err(refused("unlock"))?;
    let guard = within(SOON, "the lock is granted", waiter)
        .await
        .expect("the thread did not panic")
        .map_err(refused("wait"))?;
    let tried = client.mutex("a").try_lock().await.map_err(refused("try_lock"))?;
    assert!(tried.is_none());
    let _ = client.mutex("a").request_release("now").await.map_err(refused("request_release"))?;
    guard.unlock().await.map_err(refused("unlock"))?;
    let writer = client.rw_lock("a").write().await.map_err(refused("write"))?;
    let reader = writer.downgrade().await.map_err(refused("downgrade"))?;
    reader.unlock().await.map_err(refused("unlock"))?;
    let permit = client.semaphore("a", 2).acquire().await.map_err(refused("acquire"))?;
    permit.release().await.map_err(refused("release"))?;
    let leader = client.election("a").campaign("x").await.map_err(refused("campaign"))?;
    leader.resign().await.map_err(refused("resign"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn minimal_zookeeper_rights_suffice() {
    let zookeeper = OwnZooKeeper::start().await;
    let builder = || {
        let builder = zookeeper.builder().credentials("app", "s3cret-of-app");
        builder.request_timeout(Duration::from_secs(1))
    };
    for (rights, refused) in [
        ("cdrw", None),
        ("cdr", None),
        ("drw", Some("lock")),
        ("crw", Some("unlock")),
        ("cdw", Some("queue")),
    ] {
        let client = connected(builder().acl(format!("auth::{rights}"))).await;
        match (use_all(&client).await, refused) {
            (Ok(()), None) => {}
            (Err((what, error)), Some(refused)) => {
                assert_eq!(what, refused, "{rights}: {}", chain(&error));
                denied(rights, Err::<(), _>(error));
            }
            (outcome, refused) => panic!("{rights}: {outcome:?}, not {refused:?}"),
        }
    }

    // In a namespace created by the operator, the right to create is sufficient.
    let operator = zk::Client::connector().connect(&zookeeper.plain.to_string()).await.unwrap();
    for (namespace, right) in [("/made", zk::Permission::CREATE), ("/shut", zk::Permission::READ)] {
        let acl = [zk::Acl::new(right, zk::AuthId::anyone())];
        let node = zk::CreateMode::Persistent.with_acls(zk::Acls::new(&acl));
        operator.create(namespace, b"", &node).await.unwrap();
        let client = connected(builder().namespace(namespace)).await;
        match right {
            zk::Permission::CREATE => use_all(&client).await.unwrap(),
            _ => denied(namespace, client.mutex("a").lock().await),
        }
    }
}
