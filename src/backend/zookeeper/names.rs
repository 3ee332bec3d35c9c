//! Nodes of a queue: their names, and what these and their data say.

use std::fmt;

use zookeeper_client as zk;

use crate::{backend::Ticket, runtime::random};

/// What stands between the tag and the sequence number: what Curator's `InterProcessMutex` looks
/// for and sorts by (`LockInternals.LOCK_NAME`).
const MARK: &str = "lock-";

/// What stands there in the nodes of kazoo's `Lock` and `WriteLock`, and of its `ReadLock`
/// (kazoo/recipe/lock.py, `_NODE_NAME`). With `extra_lock_patterns=["-lock-"]` each of them waits
/// for ours, so ours wait for each of them.
const KAZOO: [&str; 2] = ["__lock__", "__rlock__"];

/// As long as a ticket is when it is written.
const TICKET: usize = 36;

/// As long as a random tag is. No directory's tag is: its upper half counts the ensemble's leaders.
const TAG: usize = 16;

/// What a container has for an owner (`EphemeralType.CONTAINER_EPHEMERAL_OWNER`).
const CONTAINER: i64 = i64::MIN;

/// Whose names begin with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// The directory's czxid: a client that knows it can tell the name of each number.
    Directory(i64),
    /// For a client that does not know it yet: a number that no other request has.
    Random(i64),
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(czxid) => write!(f, "{czxid:x}"),
            Self::Random(number) => write!(f, "{number:0TAG$x}"),
        }
    }
}

impl Tag {
    pub(super) fn random() -> Self {
        Self::Random(random::id())
    }

    /// The path of a waiter's node, up to the sequence number that the server adds.
    pub(super) fn prefix(self, dir: &str, label: &str) -> String {
        let mark = if label.is_empty() { "" } else { "-" };
        format!("{dir}/{self}{mark}{label}-{MARK}")
    }
}

/// Returns `true` if no other node in the directory of this czxid can have an own node's name: see
/// `Tags`.
pub(super) fn is_unique(key: &str, directory: i64) -> bool {
    place_of(split(key).1).is_some_and(|(tag, _)| {
        tag.len() == TAG || tag == Tag::Directory(directory).to_string() && !is_worn(key)
    })
}

/// Whether the server may give this number to many nodes of a directory: see `order::position`.
pub(super) fn is_worn(key: &str) -> bool {
    sequence(split(key).1).is_some_and(|number| !(0..i32::MAX).contains(&number))
}

/// What a node holds: the ticket, to find it by when the reply to its creation was lost, and for
/// operators who made it.
pub(super) fn data(ticket: Ticket, owner: &[u8]) -> Vec<u8> {
    [ticket.to_string().as_bytes(), b" ", owner].concat()
}

/// The ticket in a node's data.
pub(super) fn ticket_in(data: &[u8]) -> Option<&str> {
    let (ticket, rest) = data.split_at_checked(TICKET)?;
    str::from_utf8(ticket).ok().filter(|_| rest.starts_with(b" "))
}

/// What was written into a node of ours. A client that lets go of a lock has emptied its node.
pub(super) fn value(mut data: Vec<u8>) -> Vec<u8> {
    if ticket_in(&data).is_some() {
        data.drain(..=TICKET);
    }
    data
}

/// What a waiter's name says of itself: `{tag}-{label}-lock-{sequence}`, or without a label
/// `{tag}-lock-{sequence}`. `None`: it is another client's.
pub(super) fn label(name: &str) -> Option<&str> {
    let (head, _) = cut(name)?;
    let (tag, label) = match head.split_once('-') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (head, ""),
    };
    let is_tag = (1..=16).contains(&tag.len())
        && tag.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_label =
        label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'@' | b'+'));
    (is_tag && is_label).then_some(label)
}

/// The token that a label hands on, which took the place of another: `{label}@{token}`.
pub(super) fn inherited(label: &str) -> (&str, Option<u64>) {
    let token = |digits: &str| {
        digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match label.rsplit_once('@').map(|(label, digits)| (label, token(digits))) {
        Some((label, token @ Some(_))) => (label, token),
        _ => (label, None),
    }
}

/// The path of the node that takes the place of this one, and says something else of itself.
pub(super) fn relabelled(key: &str, to: &str) -> Option<String> {
    let (dir, name) = split(key);
    let (tag, number) = place_of(name)?;
    let mark = if to.is_empty() { "" } else { "-" };
    Some(format!("{dir}/{tag}{mark}{to}-{number}"))
}

/// Whether the release of a holder with this node leaves its name in the directory as a mark. Where
/// names have labels, waiters list the queue in any case. A name that may come again is no proof.
pub(super) fn is_marked(key: &str) -> bool {
    label(split(key).1).is_some_and(str::is_empty) && !is_worn(key)
}

/// Whether a name is a holder's mark in the directory of this czxid. Clients that know a former
/// directory of the same path pass on its marks, and give those names to new nodes: see `Tags`.
pub(super) fn is_mark_in(name: &str, directory: i64) -> bool {
    is_marked(name) && !is_doubtful(name, Some(directory))
}

/// What remains of the name of a node of ours whatever its label: its tag, and its number with the
/// mark.
pub(super) fn place_of(name: &str) -> Option<(&str, &str)> {
    label(name)?;
    let (head, number) = cut(name)?;
    Some((head.split_once('-').map_or(head, |(tag, _)| tag), number))
}

/// A waiter's name, cut at the hyphen before the mark.
fn cut(name: &str) -> Option<(&str, &str)> {
    marked(name, MARK)?;
    let (head, number) = name.split_at_checked(name.rfind(MARK)?)?;
    Some((head.strip_suffix('-')?, number))
}

/// Whether a node is nobody's, whatever it is called: it belongs to no session, so nothing would
/// ever take it away. What was created as ephemeral never becomes so, and the other way round.
pub(super) fn is_nobodys(stat: &zk::Stat) -> bool {
    stat.ephemeral_owner == 0 || stat.ephemeral_owner == CONTAINER
}

/// Whether the names in the directory of this czxid leave it open that the node is nobody's: those
/// of others, and those that were ours in another directory, as backups restore them.
pub(super) fn is_doubtful(name: &str, directory: Option<i64>) -> bool {
    match place_of(name) {
        Some((tag, _)) => {
            tag.len() < TAG
                && directory.is_none_or(|czxid| tag != Tag::Directory(czxid).to_string())
        }
        None => sequence(name).is_some(),
    }
}

/// The directory and the name of a node.
pub(super) fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('/').unwrap_or(("", key))
}

/// The sequence number of a waiter; `None` for a child that is no waiter.
///
/// The server prints a signed 32-bit counter with Java's `%010d`
/// (`PrepRequestProcessor.pRequest2TxnCreate`): ten digits, or a minus sign and nine or ten.
pub(super) fn sequence(name: &str) -> Option<i32> {
    [MARK].iter().chain(&KAZOO).find_map(|mark| marked(name, mark))
}

fn marked(name: &str, mark: &str) -> Option<i32> {
    let number = name.get(name.rfind(mark)? + mark.len()..)?;
    let (digits, lengths) =
        number.strip_prefix('-').map_or((number, 10..=10), |digits| (digits, 9..=10));
    if !lengths.contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(number: i32) -> String {
        format!("_c_6f2bd2a8-1b5c-4f1c-9d4e-1d2f3a4b5c6d-lock-{number:010}")
    }

    #[test]
    fn names_are_read_as_the_server_prints_them() {
        for number in [0, 12, 999_999_999, i32::MAX, -1, -12, i32::MIN] {
            assert_eq!(sequence(&waiter(number)), Some(number));
            assert_eq!(sequence(&format!("lock-{number:010}")), Some(number));
        }
        assert_eq!(sequence("_c_u-lock--2147483648"), Some(i32::MIN));
        for mark in KAZOO {
            let kazoo = format!("3c5b1f9a0e8d4a7fb2c6d1e09f8a7b6c{mark}");
            for number in [0, 12, i32::MAX, -12, i32::MIN] {
                assert_eq!(sequence(&format!("{kazoo}{number:010}")), Some(number));
            }
            assert_eq!(label(&format!("{kazoo}0000000007")), None);
        }
        assert_eq!(sequence("lock-of-lock-0000000007"), Some(7));
    }

    #[test]
    fn junk_is_no_waiter() {
        for junk in [
            "",
            "lock",
            "lock-",
            "lock-7",
            "lock-000000000x",
            "lock-00000000007",
            "lock-9999999999",
            "lock-+000000001",
            "lock--",
            "lock-0000000001x",
            "lock-\u{661}\u{661}\u{661}\u{661}\u{661}",
            "0000000001",
            "latch-0000000001",
            "_c_u-__READ__0000000001",
            "_c_u-__WRIT__0000000001",
            "3c5b1f9a0e8d4a7fb2c6d1e09f8a7b6c__lock__",
            "3c5b1f9a0e8d4a7fb2c6d1e09f8a7b6c__lock__1",
            "__lock__00000000001",
            "__wlock__0000000001",
            "3c5b1f9a0e8d4a7fb2c6d1e09f8a7b6c",
            "lease_holder_0000000001",
            "élock-",
        ] {
            assert_eq!(sequence(junk), None, "{junk:?}");
        }
    }

    #[test]
    fn names_tell_whose_they_can_be() {
        let key = |tag: Tag| format!("{}0000000007", tag.prefix("/ns/a", ""));
        assert_eq!(key(Tag::Directory(0x5_0000_002a)), "/ns/a/50000002a-lock-0000000007");
        for (tag, unique) in [
            (Tag::Directory(0x5_0000_002a), true),
            (Tag::random(), true),
            (Tag::Random(1), true),
            (Tag::Directory(0x5000_0002), false),
            (Tag::Directory(0x50_0000_02a0), false),
        ] {
            assert_eq!(is_unique(&key(tag), 0x5_0000_002a), unique, "{tag}");
            assert_eq!(sequence(split(&key(tag)).1), Some(7), "{tag}");
        }
        let labelled = format!("{}0000000007", Tag::Directory(0x2a).prefix("/ns/a", "r"));
        assert_eq!(labelled, "/ns/a/2a-r-lock-0000000007");
        assert!(is_unique(&labelled, 0x2a) && !is_unique(&labelled, 0x2));
        assert!(!is_unique("/ns/a/lock-0000000007", 0x5_0000_002a));
        assert_ne!(Tag::random(), Tag::random());
    }

    #[test]
    fn names_that_are_taken_on_trust_are_ours() {
        for trusted in [
            "2a-lock-0000000007",
            "2a-r-lock-0000000007",
            "0f0e8a5e8b8d4a9e-lock-0000000007",
            "junk",
            "lock-7",
        ] {
            assert!(!is_doubtful(trusted, Some(0x2a)), "{trusted}");
        }
        for doubtful in
            ["2b-lock-0000000007", "lock-0000000007", &*waiter(7), "6c__lock__0000000007"]
        {
            assert!(is_doubtful(doubtful, Some(0x2a)), "{doubtful}");
        }
        assert!(is_doubtful("2a-lock-0000000007", None));
    }

    #[test]
    fn worn_numbers_make_no_name_unique() {
        let key = |tag: Tag, number: i64| format!("{}{number:010}", tag.prefix("/ns/a", ""));
        for (number, worn) in [
            (0, false),
            (i64::from(i32::MAX) - 1, false),
            (i64::from(i32::MAX), true),
            (i64::from(i32::MIN), true),
            (-1, true),
        ] {
            let directory = key(Tag::Directory(0x2a), number);
            assert_eq!(is_worn(&directory), worn, "{directory}");
            assert_eq!(is_unique(&directory, 0x2a), !worn, "{directory}");
            assert_eq!(is_marked(&directory), !worn, "{directory}");
            assert!(is_unique(&key(Tag::random(), number), 0x2a));
        }
    }

    #[test]
    fn marks_belong_to_one_directory() {
        for mark in ["2a-lock-0000000007", "0f0e8a5e8b8d4a9e-lock-0000000007"] {
            assert!(is_mark_in(mark, 0x2a), "{mark}");
        }
        for foreign in [
            "2b-lock-0000000007",
            "2a-r-lock-0000000007",
            "2a-lock-2147483647",
            "0f0e8a5e8b8d4a9e-lock-2147483647",
            "2a-lock--000000001",
            "lock-0000000007",
            "",
            "what an operator wrote",
        ] {
            assert!(!is_mark_in(foreign, 0x2a), "{foreign}");
        }
    }

    #[test]
    fn labels_are_read_back() {
        for tag in [Tag::Directory(0x5_0000_002a), Tag::random()] {
            for said in ["", "r", "w@1234", "2+7", "lock", "cafe"] {
                let key = format!("{}0000000007", tag.prefix("/ns/a", said));
                let name = split(&key).1;
                assert_eq!(label(name), Some(said), "{name}");
                assert_eq!(place_of(name), Some((&*tag.to_string(), "lock-0000000007")));
                let other = relabelled(&key, "x@5").unwrap();
                assert_eq!(other, format!("/ns/a/{tag}-x@5-lock-0000000007"));
                assert_eq!(relabelled(&other, said).unwrap(), key);
            }
        }
        for foreign in [
            &*waiter(7),
            "lock-0000000007",
            "-lock-0000000007",
            "2a--lock-0000000007",
            "2A-lock-0000000007",
            "2a-r-w-lock-0000000007",
            "2a-r_-lock-0000000007",
            "2alock-0000000007",
            "2a-lock-x__lock__0000000007",
            "00112233445566778-lock-0000000007",
            "2a-lock-7",
            "limit=5",
        ] {
            assert_eq!(label(foreign), None, "{foreign}");
            assert_eq!(relabelled(foreign, "r"), None, "{foreign}");
        }
    }

    #[test]
    fn labels_hand_on_tokens() {
        assert_eq!(inherited("r@1234"), ("r", Some(1234)));
        assert_eq!(inherited("2+7@18446744073709551615"), ("2+7", Some(u64::MAX)));
        assert_eq!(inherited("@7"), ("", Some(7)));
        for none in ["", "r", "r@", "r@x", "r@+5", "1234", "r@18446744073709551616"] {
            assert_eq!(inherited(none), (none, None), "{none}");
        }
    }

    #[test]
    fn tickets_are_read_back() {
        let ticket = Ticket::random();
        for owner in ["worker-7 of gaia", "", "é", "0f0e8a5e-8b8d-4a9e-9a3a-5d6c1b1f7a10 x"] {
            let data = data(ticket, owner.as_bytes());
            assert_eq!(ticket_in(&data), Some(&*ticket.to_string()));
            assert_eq!(value(data), owner.as_bytes());
        }
        for junk in [&b""[..], b"x", &[0xff; 40], &[b'x'; 36], "é".repeat(40).as_bytes()] {
            assert_eq!(ticket_in(junk), None);
            assert_eq!(value(junk.to_vec()), junk);
        }
    }
}
