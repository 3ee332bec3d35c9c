//! Nodes of a queue: their names and their order.

use crate::{
    name::Ticket,
    rig::{Bug, planted},
};

/// What stands before the sequence number: with `_c_{uuid}-` ahead of it, the name that Curator's `InterProcessMutex` writes and sorts
/// (`LockInternals.LOCK_NAME`).
const MARK: &str = "lock-";

/// The path of a waiter's node, up to the sequence number that the server adds.
pub(super) fn prefix(dir: &str, ticket: Ticket) -> String {
    format!("{dir}/_c_{ticket}-{MARK}")
}

/// The paths of a ticket's nodes among the children of `dir`.
pub(super) fn of(ticket: Ticket, dir: &str, children: &[String]) -> impl Iterator<Item = String> {
    let id = ticket.to_string();
    children.iter().filter(move |child| child.contains(&id)).map(move |child| format!("{dir}/{child}"))
}

pub(super) fn any_waiter(children: &[String]) -> bool {
    children.iter().any(|child| sequence(child).is_some())
}

/// The directory and the name of a node.
pub(super) fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('/').unwrap_or(("", key))
}

/// The sequence number of a waiter; `None` for a child that is no waiter.
///
/// The server prints a signed 32-bit counter with Java's `%010d` (`PrepRequestProcessor.pRequest2TxnCreate`): ten digits, or a minus sign
/// and nine or ten.
pub(super) fn sequence(name: &str) -> Option<i32> {
    let number = name.get(name.rfind(MARK)? + MARK.len()..)?;
    let (digits, lengths) = number.strip_prefix('-').map_or((number, 10..=10), |digits| (digits, 9..=10));
    if !lengths.contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    number.parse().ok()
}

/// Where a node stands among the children of its directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place<'a> {
    First,
    /// The child just ahead.
    Behind(&'a str),
    Gone,
    /// The sequence numbers do not tell.
    Unclear,
}

/// Finds the waiter just ahead of `own`. Children that are no waiters do not count.
///
/// The numbers tell the order as long as they rise. After 2^31 - 1 they do not any more: the server goes on to negative ones or, as `DataTree.createNode` keeps
/// the counter only if it grew, hands out the same number again
/// (<https://github.com/apache/zookeeper/blob/release-3.9.3/zookeeper-server/src/main/java/org/apache/zookeeper/server/DataTree.java#L475>).
pub(super) fn place<'a>(own: &str, children: &'a [String]) -> Place<'a> {
    let Some(own_sequence) = sequence(own) else { return Place::Unclear };
    let (mut found, mut ahead) = (false, None);
    for child in children {
        let Some(sequence) = sequence(child) else { continue };
        if sequence < 0 || sequence == i32::MAX {
            return Place::Unclear;
        }
        if child == own {
            found = true;
        } else if sequence <= own_sequence {
            // An equal number is nobody's whom the server numbered: let it go first.
            let this = Some((sequence, child.as_str()));
            ahead = if planted(Bug::Herd) && ahead.is_some() { ahead.min(this) } else { ahead.max(this) };
        }
    }
    match ahead {
        _ if !found && !planted(Bug::OwnKeyUnchecked) => Place::Gone,
        Some((_, child)) => Place::Behind(child),
        None => Place::First,
    }
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
            "élock-",
        ] {
            assert_eq!(sequence(junk), None, "{junk:?}");
        }
    }

    #[test]
    fn the_nearest_lower_one_is_ahead() {
        let own = waiter(5);
        let listed = |numbers: &[i32]| numbers.iter().map(|number| waiter(*number)).collect::<Vec<_>>();
        assert_eq!(place(&own, &listed(&[7, 5, 6])), Place::First);
        assert_eq!(place(&own, &listed(&[1, 7, 3, 5])), Place::Behind(&waiter(3)));
        assert_eq!(place(&own, &listed(&[1, 7])), Place::Gone);
        assert_eq!(place(&own, &[]), Place::Gone);
        let mixed = ["junk".to_owned(), own.clone(), "lock-0000000005".to_owned(), "zlock-1".to_owned()];
        assert_eq!(place(&own, &mixed), Place::Behind("lock-0000000005"));
    }

    #[test]
    fn worn_out_counters_are_not_trusted() {
        let children = [waiter(i32::MAX - 1), waiter(i32::MAX), waiter(i32::MIN)];
        assert_eq!(place(&children[0], &children), Place::Unclear);
        assert_eq!(place(&children[0], &children[..1]), Place::First);
        assert_eq!(place("junk", &children), Place::Unclear);
    }
}
