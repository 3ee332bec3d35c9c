//! Joins a queue.

use std::sync::Arc;

use etcd_client::TxnOpResponse;

use super::{EtcdStore, JOIN, counted};
use crate::{
    backend::{
        Entry, Join, Joined, Joiner, LockStore, Predecessor, Result, SequencePoint, Standing,
        StoreError,
        etcd::{
            contention::{LONG, Level},
            keys,
            transactions::{Answer, Paths},
        },
    },
    runtime::random,
};

/// Returns the outcome of joining for a client that is alone in the queue.
pub(in crate::backend::etcd) fn alone(paths: &Paths<'_>, revision: u64) -> Joined {
    let (entry, standing) = (Entry::new(Arc::clone(&paths.key), revision), Standing::First);
    Joined::Queued { entry, standing, at: SequencePoint(revision), alive: None, alone: true }
}

impl EtcdStore {
    pub(super) async fn join(
        &self,
        joiner: Joiner<'_>,
        value: &[u8],
        join: Join,
    ) -> Result<Joined> {
        let (paths, dir) = (Paths::new(joiner, self.lease), joiner.queue.dir());
        if join == Join::IfFree {
            let (joined, revision) = self.txn(JOIN, paths.join_if_free(value)).await?;
            if joined.succeeded() {
                return Ok(alone(&paths, revision));
            }
            let mut reads =
                joined.op_responses().into_iter().filter_map(|response| match response {
                    TxnOpResponse::Get(mut get) => Some(get.take_kvs()),
                    _ => None,
                });
            let before = reads.next().is_some_and(|own| !own.is_empty());
            let prefix = paths.prefix();
            let junk =
                reads.next().is_some_and(|kvs| !kvs.iter().any(|kv| keys::is_place(&prefix, kv)));
            // Either an earlier attempt, whose reply was lost, has put the key, or the queue has
            // only keys that are not waiters'.
            return if before || junk {
                self.put(&paths, dir, value, false).await
            } else {
                Ok(Joined::Occupied)
            };
        }
        if !joiner.queue.label().is_empty() {
            // An entry with a label reads the whole queue in any case, so a tail would spare no
            // read.
            return self.put(&paths, dir, value, false).await;
        }
        let (before, _joining) = counted(&self.joining);
        // All joins under way may be for this queue.
        let mut long = before >= LONG as usize;
        match self.contention.level(dir) {
            Level::Cold => {
                // Clients that join in the meantime will not be alone.
                self.contention.set(dir, Level::Few);
                let (joined, revision) = self.txn(JOIN, paths.join_empty(value)).await?;
                if joined.succeeded() {
                    self.contention.set(dir, Level::Cold);
                    return Ok(alone(&paths, revision));
                }
                let count = joined.op_responses().pop();
                long |= matches!(count, Some(TxnOpResponse::Get(get)) if get.count() >= LONG);
                // Thousands of clients may have joined at this moment, and each has counted those
                // that were there before all of them. One in `LONG` creates the tail, which spares
                // the others the read of an ever longer queue.
                long |= random::below(LONG as usize) == 0;
            }
            level => long |= level == Level::Many,
        }
        self.put(&paths, dir, value, long).await
    }

    /// Joins in one request, whether or not the queue is empty.
    async fn put(&self, paths: &Paths<'_>, dir: &str, value: &[u8], long: bool) -> Result<Joined> {
        let (joined, revision) = self.txn(JOIN, paths.join(value, long)).await?;
        // If there was no tail and none was created, no tail can name this key.
        let mut entry = Entry::new(Arc::clone(&paths.key), revision);
        entry.crowded = long || !joined.succeeded();
        let answer = paths.answer(&joined);
        let alone = matches!(answer, Answer::Joined { count: ..=1, .. });
        match &answer {
            Answer::Joined { count: ..=1, .. } => self.contention.cool(dir),
            Answer::Joined { count: ..LONG, .. } => self.contention.set(dir, Level::Few),
            Answer::Joined { .. } | Answer::BehindTail(_) | Answer::AmongOthers => {
                self.contention.set(dir, Level::Many)
            }
            Answer::Before(_) | Answer::Nonsense => {}
        }
        let standing = match answer {
            Answer::BehindTail(ahead) => {
                Ok(Standing::Behind(Predecessor { entry: ahead, first: false, seen: false }))
            }
            // A key that is not valid UTF-8 cannot be read by its name, because names are stored as
            // text here.
            Answer::Joined { ahead: Some(ahead), count: 2 }
                if keys::is_place(&paths.prefix(), &ahead) && ahead.key_str().is_ok() =>
            {
                let entry = keys::entry(&ahead);
                Ok(Standing::Behind(Predecessor { entry, first: true, seen: true }))
            }
            Answer::Joined { ahead, .. } => self.behind(&paths.prefix(), ahead).await,
            Answer::AmongOthers => self.standing(&entry).await,
            Answer::Before(kv) => {
                entry.revision = kv.create_revision().unsigned_abs();
                entry.token = entry.revision;
                self.standing(&entry).await
            }
            Answer::Nonsense => Err(StoreError::Unknown("stale or malformed reply".into())),
        };
        let at = SequencePoint(entry.revision);
        // The key exists, so a failure after that leaves the join as a whole in doubt.
        let standing = standing.map_err(StoreError::in_doubt)?;
        Ok(Joined::Queued { entry, standing, at, alive: None, alone })
    }
}
