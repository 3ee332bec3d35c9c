//! The transactions that join, leave and read a queue.
//!
//! # Joining in constant time
//!
//! etcd loads and sorts a whole prefix to return its two newest keys. That costs nothing at 10
//! keys, and 5 ms at 5,000. So a client that joins a long queue also writes the name of its key
//! into one more key, the *tail*. The same transaction returns the tail's previous value: the key
//! that joined just before. This is the swap of a CLH queue lock. The key in the tail is the
//! nearest predecessor under three conditions:
//!
//! 1. Every key of ours that joined since the tail was created has swapped it. All joins swap the
//!    tail if there is one, except those that require an empty queue. The latter cannot have
//!    succeeded while the key in the tail existed.
//! 2. That key still exists after the join, because the tail may outlive its key (an operator
//!    deletes the key). The first read of the key, for the watch, verifies that.
//! 3. No other client's key exists, because those clients do not swap the tail. All our keys begin
//!    with a mark that no other client uses. Two empty ranges, below and above the mark, prove the
//!    condition at the moment of joining. No client can join ahead later.
//!
//! Otherwise the queue is read, which is as exact and takes longer. The tail belongs to the lease
//! of its writer. A client that leaves deletes the tail if it still names its own key, so the tail
//! does not outlive the queue. It lies outside the queue's prefix, where other clients do not take
//! it for a waiter. If there is no tail, a waiter that expects a long queue creates one as it
//! joins.

use std::sync::Arc;

use etcd_client::{
    Compare, CompareOp, DeleteOptions, DeleteResponse, GetOptions, KeyValue, PutOptions, SortOrder,
    SortTarget, Txn, TxnOp, TxnOpResponse, TxnResponse,
};

use super::{
    keys::{self, AFTER_MARK, MARK, end_of, is_entry, label_of},
    reading::Reading,
    release_marker,
};
use crate::backend::{Entry, Joiner, Queue, Write};

/// The keys that a ticket uses.
pub(super) struct Paths<'a> {
    queue: &'a Queue,
    pub(super) key: Arc<str>,
    lease: i64,
}

/// The outcome of a transaction that joins.
pub(super) enum Answer {
    /// It joined where there was no tail, behind this key. `count` is the length of the queue.
    Joined { ahead: Option<KeyValue>, count: i64 },
    /// It joined behind the key in the tail.
    BehindTail(Entry),
    /// It joined, and the queue has other clients' keys.
    AmongOthers,
    /// It had already joined.
    Before(KeyValue),
    /// The reply is malformed or stale.
    Nonsense,
}

impl<'a> Paths<'a> {
    pub(super) fn new(Joiner { queue, ticket }: Joiner<'a>, lease: i64) -> Self {
        Self { queue, key: keys::key(queue, lease, ticket), lease }
    }

    /// Returns the prefix of all keys of the queue.
    pub(super) fn prefix(&self) -> String {
        keys::prefix(self.queue)
    }

    fn tail(&self) -> String {
        // It lies deeper than a queue's keys, so that it is not one for a lock of this name in a
        // namespace that ends here. No lock's name has this character.
        [self.queue.dir(), "!/tail"].concat()
    }

    fn absent(&self) -> Compare {
        Compare::create_revision(&*self.key, CompareOp::Equal, 0)
    }

    /// Compares every key of the range, and holds if there is none.
    fn free(&self) -> Compare {
        Compare::create_revision(self.prefix(), CompareOp::Equal, 0).with_prefix()
    }

    fn no_tail(&self) -> Compare {
        Compare::create_revision(self.tail(), CompareOp::Equal, 0)
    }

    pub(super) fn put(&self, value: &[u8]) -> TxnOp {
        TxnOp::put(&*self.key, value, Some(PutOptions::new().with_lease(self.lease)))
    }

    fn put_tail(&self) -> TxnOp {
        let options = PutOptions::new().with_lease(self.lease).with_prev_key();
        TxnOp::put(self.tail(), &*self.key, Some(options))
    }

    fn own(&self) -> TxnOp {
        TxnOp::get(&*self.key, Some(GetOptions::new().with_keys_only()))
    }

    /// Joins if the queue is empty, and counts its keys otherwise. The tail is compared first: if
    /// there is one, the queue is not read, however long it is.
    pub(super) fn join_empty(&self, value: &[u8]) -> Txn {
        let count =
            TxnOp::get(self.prefix(), Some(GetOptions::new().with_prefix().with_count_only()));
        Txn::new().when(self.alone()).and_then([self.put(value)]).or_else([count])
    }

    /// Joins if the queue is empty, and reads its newest keys otherwise.
    pub(super) fn join_if_free(&self, value: &[u8]) -> Txn {
        let present = TxnOp::get(self.prefix(), Some(newest_first().with_limit(100)));
        Txn::new()
            .when([self.absent(), self.free()])
            .and_then([self.put(value)])
            .or_else([self.own(), present])
    }

    /// Joins whether or not the queue is empty. With `long`, creates a tail.
    pub(super) fn join(&self, value: &[u8], long: bool) -> Txn {
        let some = |from: String, to: String| {
            TxnOp::get(from, Some(GetOptions::new().with_range(to).with_limit(1).with_keys_only()))
        };
        let prefix = self.prefix();
        let below = some(prefix.clone(), format!("{prefix}{MARK}"));
        let above = some(format!("{prefix}{AFTER_MARK}"), end_of(&prefix));
        let swap = Txn::new()
            .when([self.absent()])
            .and_then([self.put(value), self.put_tail(), below, above])
            .or_else([self.own()]);
        // This read comes after the put, so it returns the new key and the predecessor.
        let last_two = TxnOp::get(prefix, Some(newest_first().with_limit(2)));
        let put = if long {
            vec![self.put(value), self.put_tail(), last_two]
        } else {
            vec![self.put(value), last_two]
        };
        Txn::new().when([self.absent(), self.no_tail()]).and_then(put).or_else([TxnOp::txn(swap)])
    }

    pub(super) fn answer(&self, joined: &TxnResponse) -> Answer {
        let is_own = |kv: &KeyValue| kv.key() == self.key.as_bytes();
        let mut responses = joined.op_responses();
        if joined.succeeded() {
            let Some(TxnOpResponse::Get(mut get)) = responses.pop() else {
                return Answer::Nonsense;
            };
            let count = get.count();
            let (own, ahead): (Vec<_>, Vec<_>) = get.take_kvs().into_iter().partition(is_own);
            // A reply without the key that was just put is stale
            // (https://github.com/etcd-io/etcd/issues/20418).
            let answer = Answer::Joined { ahead: ahead.into_iter().next(), count };
            return if own.is_empty() { Answer::Nonsense } else { answer };
        }
        let Some(TxnOpResponse::Txn(swapped)) = responses.pop() else { return Answer::Nonsense };
        let mut responses = swapped.op_responses().into_iter();
        if !swapped.succeeded() {
            let Some(TxnOpResponse::Get(mut get)) = responses.next() else {
                return Answer::Nonsense;
            };
            return get.take_kvs().pop().filter(is_own).map_or(Answer::Nonsense, Answer::Before);
        }
        let Some(TxnOpResponse::Put(mut tail)) = responses.nth(1) else { return Answer::Nonsense };
        let others =
            responses.any(|range| !matches!(range, TxnOpResponse::Get(get) if get.count() == 0));
        let tail = tail.take_prev_key().filter(|_| !others);
        // The transaction that created this key also wrote the tail.
        let behind =
            tail.and_then(|tail| self.in_tail(tail.value(), tail.mod_revision().unsigned_abs()));
        behind.map_or(Answer::AmongOthers, Answer::BehindTail)
    }

    /// Returns the key in a tail; `None` if another client has written the tail, so that it is no
    /// key of ours in this queue.
    fn in_tail(&self, tail: &[u8], revision: u64) -> Option<Entry> {
        let key = std::str::from_utf8(tail).ok()?;
        let name = key.strip_prefix(&self.prefix()).filter(|name| !name.contains('/'))?;
        label_of(name)?;
        Some(Entry { crowded: true, ..Entry::new(key, revision) })
    }

    /// The conditions for this to be the only key. If there is a tail, others may have joined
    /// unread.
    pub(super) fn alone(&self) -> [Compare; 2] {
        [self.no_tail(), self.free()]
    }

    /// Replaces the key of an entry if that still exists. Otherwise reads the new key, to find out
    /// if an earlier attempt has put it.
    pub(super) fn replace(&self, entry: &Entry, value: &[u8]) -> Txn {
        let replace = [TxnOp::delete(&*entry.key, None), self.put(value)];
        Txn::new().when(is_still_there(entry, self.lease)).and_then(replace).or_else([self.own()])
    }

    fn delete(&self) -> TxnOp {
        TxnOp::delete(&*self.key, Some(DeleteOptions::new().with_prev_key()))
    }

    /// Deletes the key, the tail and the release marker: no client is behind it.
    fn delete_as_last(&self) -> [TxnOp; 3] {
        [
            self.delete(),
            TxnOp::delete(self.tail(), None),
            TxnOp::delete(release_marker::key(self.queue.dir()), None),
        ]
    }

    /// Deletes the key, and the tail if it names this key.
    pub(super) fn leave(&self) -> Txn {
        let last = Compare::value(self.tail(), CompareOp::Equal, &*self.key);
        Txn::new().when([last]).and_then(self.delete_as_last()).or_else([self.delete()])
    }

    /// Deletes the key of an entry as [`leave`](Self::leave) does, if its revision is the same.
    pub(super) fn remove(&self, entry: &Entry) -> Txn {
        let very = is_still_there(entry, self.lease);
        Txn::new().when(very).and_then([TxnOp::txn(self.leave())])
    }

    /// Deletes a holder's key, and leaves a release marker if the tail names another key.
    ///
    /// An evicted holder leaves no marker. Since its eviction another client may hold the lock, and
    /// clients that joined behind the evicted holder's tail are behind that one.
    pub(super) fn leave_word(&self, entry: &Entry) -> Txn {
        // This is false if there is no tail. Deleting a tail too many only costs the next joiners a
        // read of the queue.
        let behind = Compare::value(self.tail(), CompareOp::NotEqual, &*self.key);
        let marker = release_marker::put(self.queue.dir(), entry, self.lease);
        let held = is_still_there(entry, self.lease).into_iter().chain([behind]);
        Txn::new()
            .when(held.collect::<Vec<_>>())
            .and_then([self.delete(), marker])
            .or_else(self.delete_as_last())
    }

    /// Deletes the key and reads the successor's. The tail then names the successor or a later key.
    pub(super) fn leave_to(&self, successor: &Entry) -> Txn {
        let successor = TxnOp::get(&*successor.key, Some(GetOptions::new().with_keys_only()));
        Txn::new().and_then([self.delete(), successor])
    }
}

/// The conditions that a key has the entry's revision and is still on its lease.
pub(super) fn is_still_there(entry: &Entry, lease: i64) -> Vec<Compare> {
    let same = is_same(entry);
    let on_lease = Compare::lease(&*entry.key, CompareOp::Equal, lease);
    vec![same, on_lease]
}

/// Deletes a key of any lease if its create revision is the one that was read. A client that
/// acquires the lock again reuses the key.
pub(super) fn evict(entry: &Entry) -> Txn {
    Txn::new().when([is_same(entry)]).and_then([TxnOp::delete(&*entry.key, None)])
}

fn is_same(entry: &Entry) -> Compare {
    let revision = i64::try_from(entry.revision).unwrap_or(i64::MAX);
    Compare::create_revision(&*entry.key, CompareOp::Equal, revision)
}

/// Rewrites a key if it still exists and has this modification revision. Otherwise reads it.
pub(super) fn rewrite(entry: &Entry, lease: i64, value: &[u8], version: u64) -> Txn {
    let version = i64::try_from(version).unwrap_or(i64::MAX);
    let put = TxnOp::put(&*entry.key, value, Some(PutOptions::new().with_lease(lease)));
    let read = TxnOp::get(&*entry.key, Some(GetOptions::new().with_keys_only()));
    let same = Compare::mod_revision(&*entry.key, CompareOp::Equal, version);
    let compares: Vec<_> = is_still_there(entry, lease).into_iter().chain([same]).collect();
    Txn::new().when(compares).and_then([put]).or_else([read])
}

/// Writes to keys without a lease, if all of `guards` exist.
pub(super) fn commit(guards: &[Entry], lease: i64, writes: &[Write]) -> Txn {
    let write = |write: &Write| match write {
        Write::Put { key, value } => TxnOp::put(key.as_str(), value.as_slice(), None),
        Write::Delete { key } => TxnOp::delete(key.as_str(), None),
    };
    Txn::new()
        .when(guards.iter().flat_map(|guard| is_still_there(guard, lease)).collect::<Vec<_>>())
        .and_then(writes.iter().map(write).collect::<Vec<_>>())
}

/// Selects the keys of a prefix that were created before `revision`, newest first. The default
/// limit is one.
pub(super) fn nearest_below(revision: i64) -> GetOptions {
    newest_first().with_max_create_revision(revision - 1).with_limit(1)
}

/// Selects the keys of a prefix, newest first. It leaves out the values, because a foreign value
/// may be large.
fn newest_first() -> GetOptions {
    GetOptions::new()
        .with_prefix()
        .with_sort(SortTarget::Create, SortOrder::Descend)
        .with_keys_only()
}

/// Reads one key.
pub(super) fn one(key: &str, reading: Reading) -> TxnOp {
    TxnOp::get(key, Some(reading.of(GetOptions::new().with_keys_only())))
}

/// Returns `true` if a read found the entry's key. With `own`, it must be on that lease.
///
/// An operator may have overwritten it without the lease. Then other clients skip it.
pub(super) fn is_there(read: Option<TxnOpResponse>, entry: &Entry, own: Option<i64>) -> bool {
    let Some(TxnOpResponse::Get(get)) = read else { return false };
    let on_lease = |kv: &KeyValue| own.is_none_or(|lease| kv.lease() == lease);
    get.kvs().first().is_some_and(|kv| is_entry(kv, entry) && on_lease(kv))
}

/// Returns `true` if a delete found this lease's key.
///
/// If the entry is known, the revision must match: a late request to join may have put the name
/// again.
pub(super) fn was_there(deleted: &DeleteResponse, lease: i64, known: Option<&Entry>) -> bool {
    let very = |kv: &KeyValue| known.is_none_or(|entry| is_entry(kv, entry));
    deleted.prev_kvs().first().is_some_and(|kv| kv.lease() == lease && very(kv))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Ticket;

    #[test]
    fn our_keys_lie_between_those_of_others() {
        let queue = Queue::new("/ns", "name").unwrap();
        let paths = Paths::new(Joiner { queue: &queue, ticket: Ticket::random() }, i64::MAX);
        let prefix = paths.prefix();
        assert!(paths.key.starts_with(&prefix) && *paths.key > *format!("{prefix}{MARK}"));
        assert!(*paths.key < *format!("{prefix}{AFTER_MARK}"));
        assert_eq!(end_of("/ns/name/"), "/ns/name0");
        for other in ["694d9b", "ffffffffffffffff", "x"] {
            assert!(format!("{prefix}{other}") < format!("{prefix}{MARK}"));
        }
        assert!(!paths.tail().starts_with(&prefix));
        assert_eq!(keys::prefix_of(&paths.key), prefix);
    }

    #[test]
    fn only_a_key_of_this_queue_counts_as_its_tail() {
        let queue = Queue::new("/ns", "name").unwrap();
        let paths = Paths::new(Joiner { queue: &queue, ticket: Ticket::random() }, 7);
        let own = paths.in_tail(paths.key.as_bytes(), 5).unwrap();
        assert_eq!((&own.key, own.revision, own.crowded), (&paths.key, 5, true));
        for other in ["é", "", "/", "/ns/name", "/ns/name/", "/ns/name/694d9b", "/ns/other/~7-1"] {
            assert_eq!(paths.in_tail(other.as_bytes(), 5), None, "{other}");
        }
        let deeper = format!("{}/x", paths.key);
        assert_eq!(paths.in_tail(deeper.as_bytes(), 5), None);
        assert_eq!(paths.in_tail(&[0xff], 5), None);
        // The key in a foreign tail may have any name.
        for key in ["é", "", "/", "/a"] {
            assert!(!keys::leaves_marker(&Entry::new(key, 1)), "{key}");
        }
    }
}
