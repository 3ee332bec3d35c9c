//! Both clusters, with restarting servers and with crowds at one lock. The tests need the servers
//! of `docker/up`.

mod crowds;
mod endpoints;
mod members;
mod restarts;
mod space;
mod zookeeper;

use crate::common::{Case, Members, beside_others, etcd::Etcd, zookeeper::ZooKeeper};
use tokio::sync::Mutex;

static ALONE: Mutex<()> = Mutex::const_new(());

/// Runs a test while no other one runs in this process.
async fn on_etcd(test: impl AsyncFnOnce(&Case<Etcd>)) {
    let _alone = ALONE.lock().await;
    beside_others::<Etcd>(test).await;
}

/// Runs a test on both clusters at the same time, while no other one runs in this process.
async fn on_both(test: impl AsyncFn(&Case<dyn Members>)) {
    let _alone = ALONE.lock().await;
    tokio::join!(
        beside_others::<Etcd>(async |t| test(t).await),
        beside_others::<ZooKeeper>(async |t| test(t).await)
    );
}

/// Runs a test on one cluster after the other, while no other one runs in this process.
async fn on_each(test: impl AsyncFn(&Case<dyn Members>)) {
    let _alone = ALONE.lock().await;
    beside_others::<Etcd>(async |t| test(t).await).await;
    beside_others::<ZooKeeper>(async |t| test(t).await).await;
}
