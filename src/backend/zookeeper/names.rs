//! The nodes of a queue: the meaning of their names and data.

use std::fmt;

use zookeeper_client as zk;

use crate::{backend::Ticket, runtime::random};

/// The separator between the tag and the sequence number, which Curator's `InterProcessMutex`
/// searches for and sorts by (`LockInternals.LOCK_NAME`).
const MARK: &str = "lock-";

/// The separators in the nodes of kazoo's `Lock` and `WriteLock`, and of its `ReadLock`
/// (kazoo/recipe/lock.py, `_NODE_NAME`). With `extra_lock_patterns=["-lock-"]` each of them waits
/// for our nodes, so ours wait for each of them.
const KAZOO: [&str; 2] = ["__lock__", "__rlock__"];

/// The length of a written ticket.
const TICKET: usize = 36;

/// The length of a random tag. No directory's tag is as long, because its upper half counts the
/// ensemble's leaders.
const TAG: usize = 16;

/// The owner of a container node (`EphemeralType.CONTAINER_EPHEMERAL_OWNER`).
const CONTAINER: i64 = i64::MIN;

/// The tag that a node's name begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// The directory's czxid. A client that knows it can derive the name of each number.
    Directory(i64),
    /// A number that no other request has, for a client that does not know the czxid yet.
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

    /// Returns the path of a waiter's node, up to the sequence number that the server appends.
    pub(super) fn prefix(self, dir: &str, label: &str) -> String {
        let mark = if label.is_empty() { "" } else { "-" };
        format!("{dir}/{self}{mark}{label}-{MARK}")
    }
}

/// Returns `true` if no other node in its directory can ever have this node's name: see `Tags`.
/// `directory` is the directory's czxid.
pub(super) fn is_unique(key: &str, directory: i64) -> bool {
    place_of(split(key).1).is_some_and(|(tag, _)| {
        tag.len() == TAG || tag == Tag::Directory(directory).to_string() && !is_worn(key)
    })
}

/// Returns `true` if the server may assign this number to many nodes of a directory: see
/// `order::position`.
pub(super) fn is_worn(key: &str) -> bool {
    sequence(split(key).1).is_some_and(|number| !(0..i32::MAX).contains(&number))
}

/// Returns a node's data: the ticket, which finds the node if the reply to its creation was lost,
/// and the owner, for operators.
pub(super) fn data(ticket: Ticket, owner: &[u8]) -> Vec<u8> {
    [ticket.to_string().as_bytes(), b" ", owner].concat()
}

/// Returns the ticket in a node's data.
pub(super) fn ticket_in(data: &[u8]) -> Option<&str> {
    let (ticket, rest) = data.split_at_checked(TICKET)?;
    str::from_utf8(ticket).ok().filter(|_| rest.starts_with(b" "))
}

/// Returns the value in a node of ours. A client that releases a lock has emptied its node.
pub(super) fn value(mut data: Vec<u8>) -> Vec<u8> {
    if ticket_in(&data).is_some() {
        data.drain(..=TICKET);
    }
    data
}

/// Returns the label in a waiter's name: `{tag}-{label}-lock-{sequence}`, or without a label
/// `{tag}-lock-{sequence}`. `None`: the node is another client's.
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

/// Returns the label without its token, and the token of the node that this one replaced:
/// `{label}@{token}`.
pub(super) fn inherited(label: &str) -> (&str, Option<u64>) {
    let token = |digits: &str| {
        digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match label.rsplit_once('@').map(|(label, digits)| (label, token(digits))) {
        Some((label, token @ Some(_))) => (label, token),
        _ => (label, None),
    }
}

/// Returns the path of the node that replaces this one under another label.
pub(super) fn relabelled(key: &str, to: &str) -> Option<String> {
    let (dir, name) = split(key);
    let (tag, number) = place_of(name)?;
    let mark = if to.is_empty() { "" } else { "-" };
    Some(format!("{dir}/{tag}{mark}{to}-{number}"))
}

/// Returns `true` if a holder with this node leaves its name in the directory as a release marker.
///
/// With labels there is no marker, because waiters list the queue in any case. A name that may be
/// reused proves nothing.
pub(super) fn is_marked(key: &str) -> bool {
    label(split(key).1).is_some_and(str::is_empty) && !is_worn(key)
}

/// Returns `true` if a name is a valid release marker in the directory of this czxid.
///
/// Clients that know a former directory of the same path write its markers again, and give those
/// names to new nodes: see `Tags`.
pub(super) fn is_mark_in(name: &str, directory: i64) -> bool {
    is_marked(name) && !is_doubtful(name, Some(directory))
}

/// Returns the parts of our node's name that do not depend on its label: its tag, and its number
/// with the separator.
pub(super) fn place_of(name: &str) -> Option<(&str, &str)> {
    label(name)?;
    let (head, number) = cut(name)?;
    Some((head.split_once('-').map_or(head, |(tag, _)| tag), number))
}

/// Splits a waiter's name at the hyphen before the separator.
fn cut(name: &str) -> Option<(&str, &str)> {
    marked(name, MARK)?;
    let (head, number) = name.split_at_checked(name.rfind(MARK)?)?;
    Some((head.strip_suffix('-')?, number))
}

/// Returns `true` if a node belongs to no session, whatever its name is.
///
/// Nothing would ever remove it. An ephemeral node never becomes persistent, nor a persistent one
/// ephemeral.
pub(super) fn is_nobodys(stat: &zk::Stat) -> bool {
    stat.ephemeral_owner == 0 || stat.ephemeral_owner == CONTAINER
}

/// Returns `true` if a name leaves open whether its node belongs to a session.
///
/// This holds for other clients' names, and for our names from another directory, which backups
/// restore. `directory` is the czxid of the name's directory.
pub(super) fn is_doubtful(name: &str, directory: Option<i64>) -> bool {
    match place_of(name) {
        Some((tag, _)) => {
            tag.len() < TAG
                && directory.is_none_or(|czxid| tag != Tag::Directory(czxid).to_string())
        }
        None => sequence(name).is_some(),
    }
}

/// Returns the directory and the name of a node.
pub(super) fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('/').unwrap_or(("", key))
}

/// Returns the sequence number of a waiter; `None` for a child that is not a waiter.
///
/// The server prints a signed 32-bit counter with Java's `%010d`
/// (`PrepRequestProcessor.pRequest2TxnCreate`): ten digits, or a minus sign and nine or ten digits.
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
    fn names_identify_possible_owners() {
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
    fn doubtful_names_are_recognized() {
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
    fn label_suffix_is_parsed_as_token() {
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
