//! What the last holder of a long queue has left there.
//!
//! Who was behind a key that is gone would have to read the queue to know whether others are in
//! front. So a holder that leaves while there is a [tail](super::transactions) writes, in the same
//! transaction, which key it deletes: the *word*. A client that finds the word of the key that was
//! ahead of its own knows that a holder was there, who had nobody in front. A waiter that gives up
//! leaves none, and an operator's delete does not either. It goes with the tail.

use etcd_client::{GetOptions, PutOptions, TxnOp, TxnOpResponse};

use super::reading::Reading;
use crate::backend::Entry;

/// Beside the tail.
pub(super) fn key(dir: &str) -> String {
    [dir, "!/word"].concat()
}

/// With the revision: a late request to join may put a key of the same name again, which nobody
/// holds.
fn of(entry: &Entry) -> String {
    format!("{} {}", entry.key, entry.revision)
}

pub(super) fn put(dir: &str, entry: &Entry, lease: i64) -> TxnOp {
    TxnOp::put(key(dir), of(entry), Some(PutOptions::new().with_lease(lease)))
}

pub(super) fn last(dir: &str, reading: Reading) -> TxnOp {
    TxnOp::get(key(dir), Some(reading.of(GetOptions::new())))
}

/// Whether a read found the word of this one.
pub(super) fn concerns(entry: &Entry, read: &TxnOpResponse) -> bool {
    let TxnOpResponse::Get(get) = read else { return false };
    get.kvs().first().is_some_and(|kv| kv.value() == of(entry).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_put_again_under_its_name_is_another() {
        assert_ne!(of(&Entry::new("/ns/a/~7-1", 1)), of(&Entry::new("/ns/a/~7-1", 2)));
        assert_eq!(key("/ns/a"), "/ns/a!/word");
    }
}
