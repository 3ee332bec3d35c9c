//! What is done with whole queues, and with keys in their places: lists, rewrites, guarded writes,
//! joining several at once.

use std::sync::{Arc, atomic::Ordering};

use etcd_client::{Client, GetOptions, KeyValue, Txn, TxnOpResponse, TxnResponse};

use super::{
    error::is_too_large,
    queue::{self, Paths},
    store::{self, EtcdStore, JOIN, READ},
    watcher::Below,
};
use crate::backend::{
    Ask, Detail, Entry, Joined, Listing, Member, Rewritten,
    error::StoreError,
    name::{Queue, Ticket},
};

/// Past that, the server would refuse the transaction (`--max-txn-ops`, 128 by default, counts the
/// two comparisons of each as well).
const MOST_AT_ONCE: usize = 60;
/// Go's own limit for answers, so that the server's is what counts.
const LARGEST_ANSWER: usize = i32::MAX as usize;

impl EtcdStore {
    /// The queue as of one revision, later than all that this session was told.
    pub(super) async fn read_all(&self, queue: &Queue, ask: Ask) -> Result<Listing, StoreError> {
        let prefix = &*queue::prefix(queue);
        let told = self.told.load(Ordering::Relaxed);
        let watch = match ask.watch {
            true => Some(Below::start(&self.watcher, prefix, self.pool.request_timeout).await?),
            false => None,
        };
        let options = GetOptions::new().with_prefix();
        let options = if ask.values { options } else { options.with_keys_only() };
        let read = |client: Arc<Client>| async move {
            client
                .kv_client()
                .max_decoding_message_size(LARGEST_ANSWER)
                .get(prefix, Some(options))
                .await
        };
        let mut read = self.pool.request(READ, read).await?;
        let revision = read.header().map_or(0, |header| header.revision());
        // It asks the leader, and yet (https://github.com/etcd-io/etcd/issues/20418).
        if revision.unsigned_abs() < told {
            return Err(StoreError::Unavailable("a stale read".into()));
        }
        let watch = watch.map(|watch| watch.since(revision)).transpose()?;
        let (mut members, mut notes) = (vec![], vec![]);
        for kv in read.take_kvs() {
            if queue::is_place(prefix, &kv) {
                members.push(self.member(prefix, kv, ask.values));
            } else if kv.lease() == 0 && queue::is_direct(prefix, &kv) {
                notes.push(String::from_utf8_lossy(&kv.key()[prefix.len()..]).into());
            }
        }
        members.sort_by_key(|member| (member.entry.token, member.entry.revision));
        Ok(Listing { members, notes, watch })
    }

    fn member(&self, prefix: &str, kv: KeyValue, values: bool) -> Member {
        let mut entry = queue::entry(&kv);
        let (mut label, mut taken) = (None, None);
        if let Some((text, token)) = entry.key.get(prefix.len()..).and_then(queue::label_of) {
            (label, taken) = (Some(text.into()), token);
        }
        entry.token = taken.unwrap_or(entry.revision);
        let (version, own) = (kv.mod_revision().unsigned_abs(), kv.lease() == self.lease);
        let detail =
            values.then(|| Detail { value: kv.into_key_value().1, version, since: None, own });
        Member { entry, label, detail }
    }

    /// A write, on condition that `guard` is there: what is answered of that is no older than the
    /// guard.
    pub(super) async fn write(
        &self,
        guard: Option<&Entry>,
        txn: Txn,
    ) -> Result<(TxnResponse, u64), StoreError> {
        let (response, revision) = self.txn("write", txn).await?;
        if guard.is_some_and(|guard| revision < guard.revision) {
            return Err(StoreError::Unknown("a stale answer".into()));
        }
        Ok((response, revision))
    }

    pub(super) async fn overwrite(
        &self,
        entry: &Entry,
        value: &[u8],
        version: u64,
    ) -> Result<Rewritten, StoreError> {
        let (response, revision) =
            self.write(Some(entry), queue::rewrite(entry, self.lease, value, version)).await?;
        if response.succeeded() {
            return Ok(Rewritten::Done(revision));
        }
        let Some(TxnOpResponse::Get(get)) = response.op_responses().pop() else {
            return Err(StoreError::Unknown("an answer without a read".into()));
        };
        let own =
            get.kvs().first().filter(|kv| queue::is_entry(kv, entry) && kv.lease() == self.lease);
        Ok(own.map_or(Rewritten::Gone, |kv| Rewritten::Not(kv.mod_revision().unsigned_abs())))
    }

    pub(super) async fn replace(
        &self,
        paths: &Paths<'_>,
        entry: &Entry,
        value: &[u8],
    ) -> Result<Option<Entry>, StoreError> {
        let (response, mut revision) = self.write(Some(entry), paths.replace(entry, value)).await?;
        if !response.succeeded() {
            // An earlier attempt, whose answer was lost, did put it. Or the key is gone.
            let Some(TxnOpResponse::Get(get)) = response.op_responses().pop() else {
                return Err(StoreError::Unknown("an answer without a read".into()));
            };
            let Some(kv) = get.kvs().first() else { return Ok(None) };
            revision = kv.create_revision().unsigned_abs();
        }
        Ok(Some(Entry { key: paths.key.as_str().into(), revision, ..entry.clone() }))
    }

    pub(super) async fn join_all(
        &self,
        queues: &[(Queue, Ticket)],
        value: &[u8],
    ) -> Result<Option<Vec<Joined>>, StoreError> {
        if queues.len() > MOST_AT_ONCE {
            return Ok(None);
        }
        let paths: Vec<_> =
            queues.iter().map(|(queue, ticket)| Paths::new(queue, self.lease, *ticket)).collect();
        let alone: Vec<_> = paths.iter().flat_map(Paths::alone).collect();
        let puts: Vec<_> = paths.iter().map(|paths| paths.put(value)).collect();
        let (joined, revision) = match self.txn(JOIN, Txn::new().when(alone).and_then(puts)).await {
            // The operator has set a lower limit than etcd's default: one at a time they are within
            // it.
            Err(error) if is_too_large(&error) => return Ok(None),
            joined => joined?,
        };
        Ok(joined
            .succeeded()
            .then(|| paths.iter().map(|paths| store::alone(paths, revision)).collect()))
    }
}
