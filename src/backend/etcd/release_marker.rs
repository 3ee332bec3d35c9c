//! The release marker that a holder leaves in a long queue.
//!
//! When the key ahead of a waiter is gone, the waiter must normally read the queue to know if
//! others are ahead. So a holder that leaves while there is a [tail](super::transactions) writes
//! which key it deletes, in the same transaction: the *release marker*. A waiter that finds the
//! marker of its predecessor knows that a holder left, which had no other client ahead. A waiter
//! that gives up leaves no marker, and neither does an operator's delete. The marker is deleted
//! with the tail.

use etcd_client::{GetOptions, PutOptions, TxnOp, TxnOpResponse};

use super::reading::Reading;
use crate::backend::Entry;

/// Returns the key of the marker, which lies next to the tail.
pub(super) fn key(dir: &str) -> String {
    [dir, "!/word"].concat()
}

/// Returns the marker's value. It includes the revision, because a late request to join may put a
/// key of the same name again, which no client holds.
fn of(entry: &Entry) -> String {
    format!("{} {}", entry.key, entry.revision)
}

pub(super) fn put(dir: &str, entry: &Entry, lease: i64) -> TxnOp {
    TxnOp::put(key(dir), of(entry), Some(PutOptions::new().with_lease(lease)))
}

pub(super) fn last(dir: &str, reading: Reading) -> TxnOp {
    TxnOp::get(key(dir), Some(reading.of(GetOptions::new())))
}

/// Returns `true` if a read found the marker of this entry.
pub(super) fn concerns(entry: &Entry, read: &TxnOpResponse) -> bool {
    let TxnOpResponse::Get(get) = read else { return false };
    get.kvs().first().is_some_and(|kv| kv.value() == of(entry).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recreated_key_has_another_release_marker() {
        assert_ne!(of(&Entry::new("/ns/a/~7-1", 1)), of(&Entry::new("/ns/a/~7-1", 2)));
        assert_eq!(key("/ns/a"), "/ns/a!/word");
    }
}
