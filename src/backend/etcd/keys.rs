//! The keys of a queue: their names, and what the names mean.

use std::{fmt::Write as _, sync::Arc};

use etcd_client::KeyValue;

use crate::backend::{Entry, Queue, Ticket};

/// The first character of our keys' names. Other clients' names are leases in hex, which do not
/// have it.
pub(super) const MARK: char = '~';
pub(super) const AFTER_MARK: char = '\u{7f}';
/// Capacity for what is between a queue's directory and a label. `format!` would allocate four
/// times.
const PLACE: usize = 64;
/// The separator before a label.
const DOT: &str = ".";
/// The separator, within a label, before the token of the key that this one has replaced.
const FROM: char = '@';

/// Returns the key of a ticket.
pub(super) fn key(queue: &Queue, lease: i64, ticket: Ticket) -> Arc<str> {
    let (dir, label) = (queue.dir(), queue.label());
    let dot = if label.is_empty() { "" } else { DOT };
    let mut key = String::with_capacity(dir.len() + PLACE + label.len());
    // Writing to a string never fails.
    let _ = write!(key, "{dir}/{MARK}{lease:x}-{ticket}{dot}{label}");
    key.into()
}

/// Returns the prefix of all keys of a queue.
pub(super) fn prefix(queue: &Queue) -> String {
    [queue.dir(), "/"].concat()
}

/// Returns the directory of a queue's key.
pub(super) fn dir_of(key: &str) -> &str {
    key.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// Returns the prefix that a queue's key begins with.
pub(super) fn prefix_of(key: &str) -> &str {
    key.rfind('/').map_or("", |slash| &key[..=slash])
}

/// Returns the first key after all that begin with `prefix`.
pub(super) fn end_of(prefix: &str) -> String {
    let mut end = prefix.to_owned();
    // The last character is a slash or some other ASCII character.
    let last = end.pop().map_or('\0', |last| char::from(last as u8 + 1));
    end.push(last);
    end
}

/// Returns `true` if this key holds a place in the queue.
///
/// A key without a lease would never expire, and no client writes one. A key that lies deeper
/// belongs to another lock: namespace `/a/b` and name `c` lie below the prefix of namespace `/a`
/// and name `b`.
pub(super) fn is_place(prefix: &str, kv: &KeyValue) -> bool {
    kv.lease() != 0 && is_direct(prefix, kv)
}

/// Returns `true` if the key lies directly below the prefix.
pub(super) fn is_direct(prefix: &str, kv: &KeyValue) -> bool {
    !kv.key().get(prefix.len()..).is_some_and(|rest| rest.contains(&b'/'))
}

/// Returns the label in a key's name, and the token that it inherits, if it does.
///
/// The name is what follows the prefix. `None`: the key is another client's.
pub(super) fn label_of(name: &str) -> Option<(&str, Option<u64>)> {
    let label = name.strip_prefix(MARK)?.rsplit_once(DOT).map_or("", |(_, label)| label);
    let taken = label.rsplit_once(FROM).and_then(|(label, token)| {
        let digits = token.bytes().all(|byte| byte.is_ascii_digit());
        Some((label, Some(token.parse().ok().filter(|_| digits)?)))
    });
    Some(taken.unwrap_or((label, None)))
}

/// Returns the queue and the ticket in the name of one of our keys; `None` for other keys.
pub(super) fn place_in(key: &str) -> Option<(Queue, Ticket)> {
    let (dir, name) = key.rsplit_once('/')?;
    let (_, place) = name.strip_prefix(MARK)?.split_once('-')?;
    let (ticket, label) = place.split_once(DOT).unwrap_or((place, ""));
    Some((Queue::at(dir, label), Ticket::parse(ticket)?))
}

/// Returns the lease in the name of one of our keys; `None` for other keys.
pub(super) fn lease_in(key: &str) -> Option<i64> {
    let (_, name) = key.rsplit_once('/')?;
    let (lease, _) = name.strip_prefix(MARK)?.split_once('-')?;
    i64::from_str_radix(lease, 16).ok()
}

/// Returns `true` if a write has removed the key's lease, or has put a key of ours on another one.
pub(super) fn lost_its_lease(kv: &KeyValue) -> bool {
    let own = kv.key_str().ok().and_then(lease_in);
    kv.lease() == 0 || own.is_some_and(|own| own != kv.lease())
}

/// Returns `true` if a holder with this key leaves a release marker when there is a tail.
///
/// A holder with a label leaves none, because others may be ahead of it.
pub(super) fn leaves_marker(entry: &Entry) -> bool {
    label_of(&entry.key[prefix_of(&entry.key).len()..]) == Some(("", None))
}

pub(super) fn entry(kv: &KeyValue) -> Entry {
    Entry::new(String::from_utf8_lossy(kv.key()), kv.create_revision().unsigned_abs())
}

/// Returns `true` if this is the entry's key, of the same revision and still on a lease.
pub(super) fn is_entry(kv: &KeyValue, entry: &Entry) -> bool {
    kv.create_revision().unsigned_abs() == entry.revision && kv.lease() != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_contain_queue_and_ticket() {
        let (queue, ticket) = (Queue::new("/ns", "a.b-c").unwrap(), Ticket::random());
        for label in ["", "r", "r@1234", "5+3"] {
            let queue = queue.labelled(label);
            let own = key(&queue, 7, ticket);
            let (found, of) = place_in(&own).unwrap();
            assert_eq!((found.dir(), found.label(), of), (queue.dir(), label, ticket));
            assert_eq!(key(&found, 7, of), own);
        }
        for other in ["", "/ns/a!/tail", "/ns/a/694d9b", "/ns/a/~7-1", "/ns/a/~7"] {
            assert!(place_in(other).is_none(), "{other}");
        }
    }

    #[test]
    fn key_names_its_lease() {
        let queue = Queue::new("/ns", "a.b-c").unwrap();
        for lease in [1, 0xabcd, i64::MAX] {
            for label in ["", "r@1234"] {
                let own = key(&queue.labelled(label), lease, Ticket::random());
                assert_eq!(lease_in(&own), Some(lease), "{own}");
            }
        }
        for other in ["", "/ns/a!/tail", "/ns/a/694d9b", "/ns/a/~7", "/ns/a/~x-1", "~7-1"] {
            assert_eq!(lease_in(other), None, "{other}");
        }
    }

    #[test]
    fn a_holder_without_a_label_leaves_marker() {
        for (key, leaves) in [
            ("/ns/a/~7-1", true),
            ("/ns/a/~7-1.r", false),
            ("/ns/a/~7-1.@4", false),
            ("/ns/a/694d9b", false),
        ] {
            assert_eq!(leaves_marker(&Entry::new(key, 1)), leaves, "{key}");
        }
    }

    #[test]
    fn labels_parse_as_written() {
        let queue = Queue::new("/ns", "a.b").unwrap();
        let read = |label: &str| {
            let queue = queue.labelled(label);
            let own = key(&queue, 7, Ticket::random());
            let name = own.strip_prefix(&prefix(&queue)).unwrap();
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
