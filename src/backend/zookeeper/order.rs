//! The order of a queue's nodes, by the numbers in their names.

use super::names::{Tag, label, sequence, split};

/// Returns the node just ahead, if its name has the directory's tag.
///
/// The server assigns consecutive numbers to all nodes ever created in a directory
/// (`PrepRequestProcessor.pRequest2TxnCreate`). `None` if the numbers do not show the order, or if
/// names have labels: the number does not determine another node's label.
pub(super) fn just_ahead(key: &str, directory: i64) -> Option<String> {
    let (dir, name) = split(key);
    if label(name).is_some_and(|label| !label.is_empty()) {
        return None;
    }
    let before = sequence(name).filter(|own| (1..i32::MAX).contains(own))? - 1;
    Some(format!("{}{before:010}", Tag::Directory(directory).prefix(dir, "")))
}

/// Returns the child with the lowest number, if any child looks like a waiter.
pub(super) fn lowest(children: &[String]) -> Option<&str> {
    let numbered = children.iter().filter_map(|child| Some((sequence(child)?, child.as_str())));
    numbered.min().map(|(_, child)| child)
}

/// The position of a node among the children of its directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Position<'a> {
    First,
    Behind {
        /// The child just ahead.
        child: &'a str,
        /// No waiter is ahead of that child.
        first: bool,
    },
    Gone,
    /// The sequence numbers do not show the position.
    Unclear,
}

/// Finds the waiter just ahead of `own`. Children that are not waiters do not count.
///
/// The numbers show the order as long as they rise. After 2^31 - 1 they no longer do. The server
/// then continues with negative numbers or repeats a number: `DataTree.createNode` stores the
/// counter only if it has grown ([ZooKeeper 3.9.3][tree], `DataTree.java`, line 475).
///
/// [tree]: https://github.com/apache/zookeeper/tree/release-3.9.3/zookeeper-server
pub(super) fn position<'a>(own: &str, children: &'a [String]) -> Position<'a> {
    let Some(own_sequence) = sequence(own) else { return Position::Unclear };
    let (mut found, mut ahead, mut count) = (false, None, 0);
    for child in children {
        let Some(sequence) = sequence(child) else { continue };
        if sequence < 0 || sequence == i32::MAX {
            return Position::Unclear;
        }
        if child == own {
            found = true;
        } else if sequence <= own_sequence {
            // The server did not assign an equal number, so that node goes first.
            ahead = ahead.max(Some((sequence, child.as_str())));
            count += 1;
        }
    }
    match ahead {
        _ if !found => Position::Gone,
        Some((_, child)) => Position::Behind { child, first: count == 1 },
        None => Position::First,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(number: i32) -> String {
        format!("_c_6f2bd2a8-1b5c-4f1c-9d4e-1d2f3a4b5c6d-lock-{number:010}")
    }

    #[test]
    fn nearest_lower_number_is_the_predecessor() {
        let own = waiter(5);
        let listed =
            |numbers: &[i32]| numbers.iter().map(|number| waiter(*number)).collect::<Vec<_>>();
        assert_eq!(position(&own, &listed(&[7, 5, 6])), Position::First);
        assert_eq!(
            position(&own, &listed(&[1, 7, 3, 5])),
            Position::Behind { child: &waiter(3), first: false }
        );
        assert_eq!(
            position(&own, &listed(&[7, 3, 5])),
            Position::Behind { child: &waiter(3), first: true }
        );
        assert_eq!(position(&own, &listed(&[1, 7])), Position::Gone);
        assert_eq!(position(&own, &[]), Position::Gone);
        let mixed =
            ["junk".to_owned(), own.clone(), "lock-0000000005".to_owned(), "zlock-1".to_owned()];
        assert_eq!(
            position(&own, &mixed),
            Position::Behind { child: "lock-0000000005", first: true }
        );
    }

    #[test]
    fn previous_number_is_the_predecessor() {
        let ahead = |own: i64| just_ahead(&format!("/ns/a/2a-lock-{own:010}"), 0x2a);
        assert_eq!(ahead(1).as_deref(), Some("/ns/a/2a-lock-0000000000"));
        assert_eq!(ahead(2_000_000_000).as_deref(), Some("/ns/a/2a-lock-1999999999"));
        // The first node has none ahead. Numbers from the last one on show no order.
        for own in [0, i64::from(i32::MAX), -1, -2_147_483_648] {
            assert_eq!(ahead(own), None, "{own}");
        }
        assert_eq!(
            just_ahead("/ns/a/0f0e8a5e8b8d4a9e-lock-0000000003", 0x2a).as_deref(),
            Some("/ns/a/2a-lock-0000000002")
        );
        assert_eq!(just_ahead("/ns/a/2a-r-lock-0000000003", 0x2a), None);
    }

    #[test]
    fn worn_out_counters_are_not_trusted() {
        let children = [waiter(i32::MAX - 1), waiter(i32::MAX), waiter(i32::MIN)];
        assert_eq!(position(&children[0], &children), Position::Unclear);
        assert_eq!(position(&children[0], &children[..1]), Position::First);
        assert_eq!(position("junk", &children), Position::Unclear);
    }
}
