//! Lists whole queues.

use std::sync::{Arc, atomic::Ordering};

use etcd_client::{Client, GetOptions, GetResponse, KeyValue};

use super::{
    keys,
    store::{EtcdStore, READ},
    wire::LARGEST_REPLY,
};
use crate::backend::{Ask, Detail, Listing, Member, Queue, Result};

impl EtcdStore {
    /// Returns the queue as of one revision, which is not older than any that this session has
    /// received.
    pub(super) async fn read_all(&self, queue: &Queue, ask: Ask) -> Result<Listing> {
        let prefix = &*keys::prefix(queue);
        let watch = match ask.watch {
            true => Some(self.watcher.watch(&prefix.into(), true, true).await?),
            false => None,
        };
        let options = GetOptions::new().with_prefix();
        let options = if ask.values { options } else { options.with_keys_only() };
        let mut read = self.newest(prefix, options).await?;
        let revision = read.header().map_or(0, |header| header.revision());
        let watch = watch.map(|watch| watch.since(revision)).transpose()?;
        let (mut members, mut notes) = (vec![], vec![]);
        for kv in read.take_kvs() {
            if keys::is_place(prefix, &kv) {
                members.push(self.member(prefix, kv, ask.values));
            } else if kv.lease() == 0 && keys::is_direct(prefix, &kv) {
                notes.push(String::from_utf8_lossy(&kv.key()[prefix.len()..]).into());
            }
        }
        members.sort_by_key(|member| (member.entry.token, member.entry.revision));
        Ok(Listing { members, notes, watch, ..Listing::default() })
    }

    /// Reads from the leader. Fails if the reply is older than an earlier reply to this session.
    pub(super) async fn newest(&self, key: &str, options: GetOptions) -> Result<GetResponse> {
        let latest = self.latest.load(Ordering::Relaxed);
        let read = async |client: Arc<Client>| {
            let mut client = client.kv_client().max_decoding_message_size(LARGEST_REPLY);
            client.get(key, Some(options)).await
        };
        // A linearizable read may be stale (https://github.com/etcd-io/etcd/issues/20418).
        let (read, revision) = self.pool.read(READ, latest, GetResponse::header, read).await?;
        self.latest.fetch_max(revision, Ordering::Relaxed);
        Ok(read)
    }

    fn member(&self, prefix: &str, kv: KeyValue, values: bool) -> Member {
        let mut entry = keys::entry(&kv);
        let (mut label, mut taken) = (None, None);
        if let Some((text, token)) = entry.key.get(prefix.len()..).and_then(keys::label_of) {
            (label, taken) = (Some(text.into()), token);
        }
        entry.token = taken.unwrap_or(entry.revision);
        let (version, own) = (kv.mod_revision().unsigned_abs(), kv.lease() == self.lease);
        let detail =
            values.then(|| Detail { value: kv.into_key_value().1, version, since: None, own });
        Member { entry, label, detail }
    }
}
