//! The stores' own clients, which write by the condition that a guard gives.

use distlock::LockGuard;
use distlock_testkit::backend::Backend;

pub(crate) enum Raw {
    #[cfg(feature = "etcd")]
    Etcd(Box<etcd_client::Client>),
    #[cfg(feature = "zookeeper")]
    ZooKeeper(zookeeper_client::Client),
}

impl Raw {
    pub(crate) async fn connect(url: &str) -> Self {
        match Backend::split(url) {
            #[cfg(feature = "etcd")]
            Some((Backend::Etcd, servers)) => {
                let client =
                    etcd_client::Client::connect(servers.split(',').collect::<Vec<_>>(), None)
                        .await;
                Self::Etcd(Box::new(client.expect("etcd answers")))
            }
            #[cfg(feature = "zookeeper")]
            Some((Backend::ZooKeeper, servers)) => {
                // The longest that the servers grant: this session is not to end in its sleep.
                let connector = zookeeper_client::Client::connector()
                    .with_session_timeout(std::time::Duration::from_secs(20));
                Self::ZooKeeper(connector.connect(servers).await.expect("ZooKeeper answers"))
            }
            _ => panic!("no such store: {url}"),
        }
    }

    /// Whether the store let the guard's holder write. Asks until there is an answer.
    #[cfg_attr(
        not(any(feature = "etcd", feature = "zookeeper")),
        allow(clippy::unused_async, unused_variables)
    )]
    pub(crate) async fn put(&mut self, guard: &LockGuard, key: &str, value: &str) -> bool {
        match self {
            #[cfg(feature = "etcd")]
            Self::Etcd(client) => {
                use etcd_client::{Txn, TxnOp};
                let held = distlock::etcd::compare(guard).expect("a guard of etcd's");
                let txn = Txn::new().when([held]).and_then([TxnOp::put(key, value, None)]);
                loop {
                    match client.txn(txn.clone()).await {
                        Ok(answer) => return answer.succeeded(),
                        Err(error) => pause(&error).await,
                    }
                }
            }
            #[cfg(feature = "zookeeper")]
            Self::ZooKeeper(client) => {
                use zookeeper_client::{Acls, CreateMode, Error};
                let (path, version) =
                    distlock::zookeeper::check(guard).expect("a guard of ZooKeeper's");
                let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
                loop {
                    let mut multi = client.new_multi_writer();
                    multi.add_check_version(path, version).expect("a path");
                    // The first write makes the node, and all later ones write over it.
                    if client.check_stat(key).await.is_ok_and(|stat| stat.is_some()) {
                        multi.add_set_data(key, value.as_bytes(), None).expect("a path");
                    } else {
                        let (parent, _) = key.rsplit_once('/').expect("a path");
                        // If that fails, so does the rest.
                        let _ = client.mkdir(parent, &options).await;
                        multi.add_create(key, value.as_bytes(), &options).expect("a path");
                    }
                    match multi.commit().await.map_err(Error::from) {
                        Ok(_) => return true,
                        Err(Error::NoNode) => return false,
                        Err(error) => pause(&error).await,
                    }
                }
            }
            #[cfg(not(any(feature = "etcd", feature = "zookeeper")))]
            _ => unreachable!("no such store"),
        }
    }
}

/// Before it asks again.
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
async fn pause(error: &(dyn std::error::Error + Sync)) {
    println!("no answer: {error}");
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
}
