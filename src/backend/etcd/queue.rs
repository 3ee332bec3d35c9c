//! A queue in etcd: the transactions that join it, leave it and look at it.
//!
//! # Joining in the same time however long the queue is
//!
//! etcd loads and sorts a whole prefix to answer "the two newest keys": nothing at 10 keys, 5 ms at
//! 5,000. So who joins a long queue also writes its own key into one more key, the *tail*, and gets
//! back what stood there: the one that joined just before (the swap of a CLH queue lock, in one
//! transaction). What was in the tail is the nearest one ahead if
//!
//! 1. every key of ours that joined since the tail was made has swapped it. All joins are
//!    transactions that swap the tail if there is one. Only those that demand an empty queue do
//!    not, and they cannot have happened while the key that the tail names was there;
//! 2. that key is still there after we joined: the tail may outlive it (an operator deletes it).
//!    That is found out when it is first looked at, for the watch;
//! 3. no other client's key is there: those don't swap the tail. All our keys begin with a mark
//!    that no other client uses, so that two empty ranges, below and above the mark, prove it at
//!    the moment of joining; nobody can get in front later.
//!
//! Else the queue is read, as exactly and as slowly as ever. The tail belongs to the lease of its
//! writer, and an owner that leaves deletes it if it is still its own: it does not outlive the
//! queue. It lies outside of the queue's prefix, where other clients don't take it for a waiter.
//! Where there is none, a waiter that expects a long queue makes it, by putting its own key there
//! as it joins.

use std::{fmt::Write as _, sync::Arc};

use etcd_client::{
    Compare, CompareOp, DeleteOptions, DeleteResponse, GetOptions, KeyValue, PutOptions, SortOrder,
    SortTarget, Txn, TxnOp, TxnOpResponse, TxnResponse,
};

use super::word;
use crate::backend::{
    Entry, Write,
    name::{Queue, Ticket},
};

/// What our keys begin with. Leases in hex, as other clients write them, don't.
const MARK: char = '~';
const AFTER_MARK: char = '\u{7f}';
/// Room for what stands between a queue's directory and a label: `format!` would ask for more
/// memory four times.
const PLACE: usize = 64;
/// What stands before a key's label.
const DOT: &str = ".";
/// What stands, at the end of a label, before the token of the key whose place this one has taken.
const FROM: char = '@';

/// The keys of one ticket's place.
pub(super) struct Paths<'a> {
    queue: &'a Queue,
    pub(super) key: Arc<str>,
    lease: i64,
}

/// What the answer to joining says.
pub(super) enum Answer {
    /// It joined where there was no tail: behind this key, one of so many in the queue.
    Joined { ahead: Option<KeyValue>, count: i64 },
    /// It joined behind the one that was in the tail.
    BehindTail(Entry),
    /// It joined; other clients' keys are there too.
    AmongOthers,
    /// It had joined before.
    Before(KeyValue),
    /// Nothing of the kind: no answer.
    Nonsense,
}

impl<'a> Paths<'a> {
    pub(super) fn new(queue: &'a Queue, lease: i64, ticket: Ticket) -> Self {
        let (dir, label) = (queue.dir(), queue.label());
        let dot = if label.is_empty() { "" } else { DOT };
        let mut key = String::with_capacity(dir.len() + PLACE + label.len());
        // Into memory: never fails.
        let _ = write!(key, "{dir}/{MARK}{lease:x}-{ticket}{dot}{label}");
        Self { queue, key: key.into(), lease }
    }

    /// What all keys of the queue begin with.
    pub(super) fn prefix(&self) -> String {
        prefix(self.queue)
    }

    fn tail(&self) -> String {
        // Deeper than a place, so that it is none for a lock of this very name, in a namespace that
        // ends here. No lock's name has this character.
        [self.queue.dir(), "!/tail"].concat()
    }

    fn absent(&self) -> Compare {
        Compare::create_revision(&*self.key, CompareOp::Equal, 0)
    }

    /// Compares every key of the range, and holds for an empty one.
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

    /// Joins if nobody is there, and counts those who are. The tail is looked at first: while there
    /// is one the queue is not read, long as it may be.
    pub(super) fn join_empty(&self, value: &[u8]) -> Txn {
        let count =
            TxnOp::get(self.prefix(), Some(GetOptions::new().with_prefix().with_count_only()));
        Txn::new().when(self.alone()).and_then([self.put(value)]).or_else([count])
    }

    /// The same, and looks who is there otherwise.
    pub(super) fn join_if_free(&self, value: &[u8]) -> Txn {
        let present = TxnOp::get(self.prefix(), Some(newest_first().with_limit(100)));
        Txn::new()
            .when([self.absent(), self.free()])
            .and_then([self.put(value)])
            .or_else([self.own(), present])
    }

    /// Joins, whether somebody is there or not; makes a tail if it is to be a long queue.
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
        // Placed after the put it sees the put: one's own key and the one ahead.
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
        let mut told = joined.op_responses();
        if joined.succeeded() {
            let Some(TxnOpResponse::Get(mut get)) = told.pop() else { return Answer::Nonsense };
            let count = get.count();
            let (own, ahead): (Vec<_>, Vec<_>) = get.take_kvs().into_iter().partition(is_own);
            // An answer without the key that was just put is no answer (a stale read:
            // https://github.com/etcd-io/etcd/issues/20418).
            let answer = Answer::Joined { ahead: ahead.into_iter().next(), count };
            return if own.is_empty() { Answer::Nonsense } else { answer };
        }
        let Some(TxnOpResponse::Txn(swapped)) = told.pop() else { return Answer::Nonsense };
        let mut told = swapped.op_responses().into_iter();
        if !swapped.succeeded() {
            let Some(TxnOpResponse::Get(mut get)) = told.next() else { return Answer::Nonsense };
            return get.take_kvs().pop().filter(is_own).map_or(Answer::Nonsense, Answer::Before);
        }
        let Some(TxnOpResponse::Put(mut tail)) = told.nth(1) else { return Answer::Nonsense };
        let others =
            told.any(|range| !matches!(range, TxnOpResponse::Get(get) if get.count() == 0));
        match tail.take_prev_key() {
            Some(tail) if !others => Answer::BehindTail(Entry {
                crowded: true,
                ..Entry::new(
                    String::from_utf8_lossy(tail.value()),
                    // Written by the transaction that created that key.
                    tail.mod_revision().unsigned_abs(),
                )
            }),
            _ => Answer::AmongOthers,
        }
    }

    /// What must be so for this to be the only key. A tail tells of others who may have come
    /// meanwhile, unread.
    pub(super) fn alone(&self) -> [Compare; 2] {
        [self.no_tail(), self.free()]
    }

    /// Puts the key in the place of another one, if that is still there; else tells whether it did
    /// so before.
    pub(super) fn replace(&self, entry: &Entry, value: &[u8]) -> Txn {
        let replace = [TxnOp::delete(&*entry.key, None), self.put(value)];
        Txn::new().when(is_still_there(entry, self.lease)).and_then(replace).or_else([self.own()])
    }

    fn delete(&self) -> TxnOp {
        TxnOp::delete(&*self.key, Some(DeleteOptions::new().with_prev_key()))
    }

    /// With what is left of the queue, if nobody is behind it.
    fn delete_as_last(&self) -> [TxnOp; 3] {
        [
            self.delete(),
            TxnOp::delete(self.tail(), None),
            TxnOp::delete(word::key(self.queue.dir()), None),
        ]
    }

    /// Deletes the key, and the tail if it is this one's.
    pub(super) fn leave(&self) -> Txn {
        let last = Compare::value(self.tail(), CompareOp::Equal, &*self.key);
        Txn::new().when([last]).and_then(self.delete_as_last()).or_else([self.delete()])
    }

    /// The same as a holder: leaves word of it if somebody else is the tail. A holder that was
    /// evicted leaves none: others may be in since, and behind them who joined behind its tail.
    pub(super) fn leave_word(&self, entry: &Entry) -> Txn {
        // Does not hold where there is no tail. A tail too many that is deleted only costs those
        // who join next a look at the queue.
        let behind = Compare::value(self.tail(), CompareOp::NotEqual, &*self.key);
        let word = word::put(self.queue.dir(), entry, self.lease);
        let held = is_still_there(entry, self.lease).into_iter().chain([behind]);
        Txn::new()
            .when(held.collect::<Vec<_>>())
            .and_then([self.delete(), word])
            .or_else(self.delete_as_last())
    }

    /// Deletes the key and looks for another one that joined behind it, in whose hands the tail is
    /// by that.
    pub(super) fn leave_to(&self, successor: &Entry) -> Txn {
        let successor = TxnOp::get(&*successor.key, Some(GetOptions::new().with_keys_only()));
        Txn::new().and_then([self.delete(), successor])
    }
}

/// What all keys of a queue begin with.
pub(super) fn prefix(queue: &Queue) -> String {
    [queue.dir(), "/"].concat()
}

/// The directory of a place.
pub(super) fn dir_of(key: &str) -> &str {
    key.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// The prefix that the key of a place begins with.
pub(super) fn prefix_of(key: &str) -> &str {
    &key[..=key.rfind('/').unwrap_or(0)]
}

/// The first key after all that begin with `prefix`.
fn end_of(prefix: &str) -> String {
    let mut end = prefix.to_owned();
    // Ends in a slash, or else in some other ASCII character.
    let last = end.pop().map_or('\0', |last| char::from(last as u8 + 1));
    end.push(last);
    end
}

/// Whether this is a place in the queue. A key without a lease would never go away, and no client
/// writes such a one. One that lies deeper belongs to another lock: that of namespace `/a/b` and
/// name `c` is below what namespace `/a` and name `b` have for a prefix.
pub(super) fn is_place(prefix: &str, kv: &KeyValue) -> bool {
    kv.lease() != 0 && is_direct(prefix, kv)
}

/// Whether it lies no deeper than directly below the prefix.
pub(super) fn is_direct(prefix: &str, kv: &KeyValue) -> bool {
    !kv.key().get(prefix.len()..).is_some_and(|rest| rest.contains(&b'/'))
}

/// What a key's name, which is what follows the prefix, says of it: its label, and whose token it
/// has if not its own. `None`: it is another client's.
pub(super) fn label_of(name: &str) -> Option<(&str, Option<u64>)> {
    let label = name.strip_prefix(MARK)?.rsplit_once(DOT).map_or("", |(_, label)| label);
    let taken = label.rsplit_once(FROM).and_then(|(label, token)| {
        let digits = token.bytes().all(|byte| byte.is_ascii_digit());
        Some((label, Some(token.parse().ok().filter(|_| digits)?)))
    });
    Some(taken.unwrap_or((label, None)))
}

/// Whether a holder with this key leaves word, if there is a tail. One with a label does not:
/// others may be in front of it.
pub(super) fn leaves_word(entry: &Entry) -> bool {
    label_of(&entry.key[prefix_of(&entry.key).len()..]) == Some(("", None))
}

/// That a key is the one that was put, and on its lease still.
pub(super) fn is_still_there(entry: &Entry, lease: i64) -> Vec<Compare> {
    let revision = i64::try_from(entry.revision).unwrap_or(i64::MAX);
    let same = Compare::create_revision(&*entry.key, CompareOp::Equal, revision);
    let on_lease = Compare::lease(&*entry.key, CompareOp::Equal, lease);
    vec![same, on_lease]
}

/// Writes a key again if it is still there, and was last written at that revision; else reads it.
pub(super) fn rewrite(entry: &Entry, lease: i64, value: &[u8], version: u64) -> Txn {
    let version = i64::try_from(version).unwrap_or(i64::MAX);
    let put = TxnOp::put(&*entry.key, value, Some(PutOptions::new().with_lease(lease)));
    let read = TxnOp::get(&*entry.key, Some(GetOptions::new().with_keys_only()));
    let same = Compare::mod_revision(&*entry.key, CompareOp::Equal, version);
    let compares: Vec<_> = is_still_there(entry, lease).into_iter().chain([same]).collect();
    Txn::new().when(compares).and_then([put]).or_else([read])
}

/// Writes to keys of no lease, if `guard` is there.
pub(super) fn commit(guard: Option<&Entry>, lease: i64, writes: &[Write]) -> Txn {
    let write = |write: &Write| match write {
        Write::Put { key, value } => TxnOp::put(key.as_str(), value.as_slice(), None),
        Write::Delete { key } => TxnOp::delete(key.as_str(), None),
    };
    Txn::new()
        .when(guard.map(|guard| is_still_there(guard, lease)).unwrap_or_default())
        .and_then(writes.iter().map(write).collect::<Vec<_>>())
}

/// The keys of a prefix created before `revision`, the newest first: one, unless told otherwise.
pub(super) fn nearest_below(revision: i64) -> GetOptions {
    newest_first().with_max_create_revision(revision - 1).with_limit(1)
}

/// The keys of a prefix, the newest first, without their values: a foreign one may be large.
fn newest_first() -> GetOptions {
    GetOptions::new()
        .with_prefix()
        .with_sort(SortTarget::Create, SortOrder::Descend)
        .with_keys_only()
}

/// One key, as a member knows it that has the key itself: nobody can get in front of a key, and
/// what was deleted stays so, so that an older state is at worst too cautious. It spares the
/// question to the leader.
pub(super) fn one(key: &str) -> TxnOp {
    TxnOp::get(key, Some(GetOptions::new().with_keys_only().with_serializable()))
}

pub(super) fn entry(kv: &KeyValue) -> Entry {
    Entry::new(String::from_utf8_lossy(kv.key()), kv.create_revision().unsigned_abs())
}

/// Whether this is the very key, and somebody's place still.
pub(super) fn is_entry(kv: &KeyValue, entry: &Entry) -> bool {
    kv.create_revision().unsigned_abs() == entry.revision && kv.lease() != 0
}

/// Whether a read of one key found this very one, on this lease if it is one's own. An operator may
/// have written over it without the lease: then the others pass it over.
pub(super) fn is_there(read: Option<TxnOpResponse>, entry: &Entry, own: Option<i64>) -> bool {
    let Some(TxnOpResponse::Get(get)) = read else { return false };
    let on_lease = |kv: &KeyValue| own.is_none_or(|lease| kv.lease() == lease);
    get.kvs().first().is_some_and(|kv| is_entry(kv, entry) && on_lease(kv))
}

/// Whether a delete found this lease's key, and the very one if that is known: one of the same name
/// may have been put since by a late request to join.
pub(super) fn was_there(deleted: &DeleteResponse, lease: i64, known: Option<&Entry>) -> bool {
    let very = |kv: &KeyValue| known.is_none_or(|entry| is_entry(kv, entry));
    deleted.prev_kvs().first().is_some_and(|kv| kv.lease() == lease && very(kv))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_keys_lie_between_those_of_others() {
        let queue = Queue::new("/ns", "name").unwrap();
        let paths = Paths::new(&queue, i64::MAX, Ticket::random());
        let prefix = paths.prefix();
        assert!(paths.key.starts_with(&prefix) && *paths.key > *format!("{prefix}{MARK}"));
        assert!(*paths.key < *format!("{prefix}{AFTER_MARK}"));
        assert_eq!(end_of("/ns/name/"), "/ns/name0");
        for other in ["694d9b", "ffffffffffffffff", "x"] {
            assert!(format!("{prefix}{other}") < format!("{prefix}{MARK}"));
        }
        assert!(!paths.tail().starts_with(&prefix));
        assert_eq!(prefix_of(&paths.key), prefix);
    }

    #[test]
    fn a_holder_without_a_label_leaves_word() {
        for (key, leaves) in [
            ("/ns/a/~7-1", true),
            ("/ns/a/~7-1.r", false),
            ("/ns/a/~7-1.@4", false),
            ("/ns/a/694d9b", false),
        ] {
            assert_eq!(leaves_word(&Entry::new(key, 1)), leaves, "{key}");
        }
    }

    #[test]
    fn labels_are_read_as_they_are_written() {
        let queue = Queue::new("/ns", "a.b").unwrap();
        let read = |label: &str| {
            let queue = queue.labelled(label);
            let paths = Paths::new(&queue, 7, Ticket::random());
            let name = paths.key.strip_prefix(&paths.prefix()).unwrap();
            let (label, token) = label_of(name).unwrap();
            (label.to_owned(), token)
        };
        for label in ["", "r", "w", "5+3", "r@x", "r@+1", "r@"] {
            assert_eq!(read(label), (label.to_owned(), None));
        }
        assert_eq!(read("r@1234"), ("r".to_owned(), Some(1234)));
        assert_eq!(read("r@1@2"), ("r@1".to_owned(), Some(2)));
        assert_eq!(read("@9"), (String::new(), Some(9)));
        let too_large = format!("r@{}0", u64::MAX);
        assert_eq!(read(&too_large), (too_large, None));
        for foreign in ["694d9b", "x.r", "", ".~", "_c_1-lock-0000000001"] {
            assert_eq!(label_of(foreign), None, "{foreign}");
        }
    }
}
