//! etcd's part of the operations that only some primitives need.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use etcd_client::{Client, GetOptions, KeyValue, Txn, TxnOpResponse, TxnResponse};

use super::{
    error::is_too_large,
    keys,
    store::{EtcdStore, JOIN, join},
    transactions::{self, Paths},
};
use crate::backend::{
    Durability, Entry, Extras, Joined, Joiner, Result, Rewrite, Rewritten, StoreError, Write,
};

/// The maximum number of queues to join in one transaction. The server rejects larger ones:
/// `--max-txn-ops`, 128 by default, also counts the two comparisons of each queue.
const MOST_AT_ONCE: usize = 60;

impl EtcdStore {
    /// Sends a write that depends on `guard`. A reply that is older than the guard is an error.
    async fn write(&self, guard: Option<&Entry>, txn: Txn) -> Result<(TxnResponse, u64)> {
        let (response, revision) = self.txn("writing data", txn).await?;
        if guard.is_some_and(|guard| revision < guard.revision) {
            return Err(StoreError::Unknown("stale reply: it is older than the lock".into()));
        }
        Ok((response, revision))
    }
}

#[async_trait]
impl Extras for EtcdStore {
    async fn rewrite(&self, rewrite: Rewrite<'_>) -> Result<Rewritten> {
        let Rewrite { entry, value, version, .. } = rewrite;
        let version = version.unwrap_or(entry.revision);
        let (response, revision) = self
            .write(Some(entry), transactions::rewrite(entry, self.lease, value, version))
            .await?;
        if response.succeeded() {
            return Ok(Rewritten::Done(revision));
        }
        let Some(TxnOpResponse::Get(get)) = response.op_responses().pop() else {
            return Err(StoreError::Unknown(
                "malformed reply: the result of the read is missing".into(),
            ));
        };
        let own =
            get.kvs().first().filter(|kv| keys::is_entry(kv, entry) && kv.lease() == self.lease);
        Ok(own.map_or(Rewritten::Gone, |kv| Rewritten::Not(kv.mod_revision().unsigned_abs())))
    }

    async fn relabel(&self, to: Joiner<'_>, entry: &Entry, value: &[u8]) -> Result<Option<Entry>> {
        let paths = Paths::new(to, self.lease);
        let (response, mut revision) = self.write(Some(entry), paths.replace(entry, value)).await?;
        if !response.succeeded() {
            // Either an earlier attempt, whose reply was lost, has put the key, or the old key is
            // gone.
            let Some(TxnOpResponse::Get(get)) = response.op_responses().pop() else {
                return Err(StoreError::Unknown(
                    "malformed reply: the result of the read is missing".into(),
                ));
            };
            let Some(kv) = get.kvs().first() else { return Ok(None) };
            revision = kv.create_revision().unsigned_abs();
        }
        Ok(Some(Entry { key: paths.key, revision, ..entry.clone() }))
    }

    async fn commit(&self, guards: &[Entry], writes: &[Write]) -> Result<bool> {
        let newest = guards.iter().max_by_key(|guard| guard.revision);
        Ok(self
            .write(newest, transactions::commit(guards, self.lease, writes))
            .await?
            .0
            .succeeded())
    }

    async fn evict(&self, entry: &Entry) -> Result<bool> {
        Ok(self.write(Some(entry), transactions::evict(entry)).await?.0.succeeded())
    }

    async fn read(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let mut read = self.newest(key, GetOptions::new()).await?;
        Ok(read.take_kvs().pop().map(|kv| kv.into_key_value().1))
    }

    /// Returns the first part of the path of each key below the namespace.
    async fn queues(&self, namespace: &str) -> Result<Vec<String>> {
        let prefix = format!("{namespace}/");
        let options = GetOptions::new().with_prefix().with_keys_only();
        let read = self.newest(&prefix, options).await?;
        let first = |kv: &KeyValue| {
            let path = kv.key_str().ok()?.get(prefix.len()..)?;
            path.split_once('/').map(|(dir, _)| dir.to_owned())
        };
        let dirs: BTreeSet<_> = read.kvs().iter().filter_map(first).collect();
        Ok(dirs.into_iter().collect())
    }

    async fn enqueue_all(&self, all: &[Joiner<'_>], value: &[u8]) -> Result<Option<Vec<Joined>>> {
        if all.len() > MOST_AT_ONCE {
            return Ok(None);
        }
        let paths: Vec<_> = all.iter().map(|joiner| Paths::new(*joiner, self.lease)).collect();
        let alone: Vec<_> = paths.iter().flat_map(Paths::alone).collect();
        let puts: Vec<_> = paths.iter().map(|paths| paths.put(value)).collect();
        let (joined, revision) = match self.txn(JOIN, Txn::new().when(alone).and_then(puts)).await {
            // The operator's limit is lower than etcd's default. One queue at a time stays within
            // it.
            Err(error) if is_too_large(&error) => return Ok(None),
            joined => joined?,
        };
        Ok(joined
            .succeeded()
            .then(|| paths.iter().map(|paths| join::alone(paths, revision)).collect()))
    }

    async fn durability(&self) -> Result<Durability> {
        let list = async |client: Arc<Client>| client.cluster_client().member_list().await;
        let listed = self.pool.request("listing the members", list).await?;
        let voters = listed.members().iter().filter(|member| !member.is_learner()).count();
        Ok(Durability::majority(voters))
    }
}
