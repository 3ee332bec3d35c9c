//! etcd: one lease per session and one key per waiter, ordered by create revision.
//!
//! Keys are `{namespace}/{name}/~{lease id in hex}-{ticket}`, followed by `.{label}` if the label
//! is not empty. Go's `clientv3/concurrency` and `etcdctl lock` put their keys, `{lease id in
//! hex}`, below the same prefix. So all of them share one queue.

mod cached_watch;
mod contention;
mod error;
mod extras;
mod keys;
mod lease_keys;
mod list;
mod pool;
mod reading;
mod release_marker;
mod renewal;
mod store;
mod tls;
mod transactions;
mod watcher;
mod wire;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use etcd_client::{Client, LeaseGrantOptions};

use self::{pool::Pool, store::EtcdStore};
use super::{Backend, Facts, Store};
use crate::{
    backend::{Result, handshake, remote::Remote, trust},
    error::Error,
    runtime::random,
    store_kind::StoreKind,
};

/// The backend of `etcd://`.
#[derive(Debug)]
pub(crate) struct Etcd {
    pool: Arc<Pool>,
    /// The timeout of a lease grant at one endpoint. It is at most the endpoint's share of the
    /// total time, so that each endpoint is tried.
    patience: Duration,
}

impl Etcd {
    pub(crate) fn new(remote: Remote) -> Result<Self, Error> {
        trust::check(&remote)?;
        let share =
            remote.opening_timeout() / u32::try_from(remote.endpoints.len()).unwrap_or(u32::MAX);
        Ok(Self { patience: share.min(remote.request_timeout), pool: Arc::new(Pool::new(remote)) })
    }
}

#[async_trait]
impl Backend for Etcd {
    fn kind(&self) -> StoreKind {
        StoreKind::Etcd
    }

    async fn open(&self, ttl: Duration) -> Result<(Facts, Arc<dyn Store>)> {
        // Whole seconds, at least one; the server may grant more.
        let seconds = i64::try_from(ttl.as_millis().div_ceil(1000)).unwrap_or(i64::MAX);
        let mut attempts_left = self.pool.len();
        let granted = loop {
            attempts_left -= 1;
            // The client chooses the ID. If the reply is lost, that lease expires after its TTL.
            let id = random::id();
            let grant = async |client: Arc<Client>| {
                let options = LeaseGrantOptions::new().with_id(id);
                client.lease_client().grant(seconds, Some(options)).await
            };
            match self.pool.request_within(self.patience, "granting a lease", grant).await {
                Ok(granted) => break granted,
                Err(error) if error.is_transient() && attempts_left > 0 => {}
                Err(error) if error.is_transient() => {
                    return Err(handshake::fault(&self.pool.remote).await.unwrap_or(error));
                }
                Err(error) => return Err(error),
            }
        };
        let ttl = Duration::from_secs(granted.ttl().unsigned_abs());
        // Until they are compacted, a read of a queue steps over the names of deleted keys: 0.1 ms
        // for 1,500.
        let ticket_in = |key: &str| keys::place_in(key).map(|(_, ticket)| ticket);
        let facts = Facts {
            keeps_old_names: true,
            // Each change of the store has its own revision, so consecutive revisions have none in
            // between.
            follows_if_there: true,
            joins_late: true,
            ticket_in: Some(ticket_in),
            ..Facts::new(ttl)
        };
        Ok((facts, Arc::new(EtcdStore::new(Arc::clone(&self.pool), granted.id(), ttl))))
    }
}
