//! Where entries are: one that is alone in its queue is a row of `distlock_alone`, and each other
//! one of `distlock_entries`. **Even numbers are of the one table, odd ones of the other**, so that
//! a number tells which. An entry stays where it is, also when others come or go.

use super::literal::{bytes, text};

/// The columns that make an entry's key: see `sql/key.rs`.
pub(super) const NAME: &str = "number, LOWER(HEX(session)), ticket, label";

/// Whether the entry with this number is in `distlock_alone`. It stays there if others come.
pub(super) fn is_alone(number: u64) -> bool {
    number.is_multiple_of(2)
}

/// The table that has the entry with this number.
pub(super) fn table_of(number: u64) -> &'static str {
    if is_alone(number) { "distlock_alone" } else { "distlock_entries" }
}

/// The next number after this one in `distlock_alone`.
pub(super) fn next(number: &str) -> String {
    format!("{number} DIV 2 * 2 + 2")
}

/// The next number after this one in `distlock_entries`.
pub(super) fn next_of_entries(number: &str) -> String {
    format!("(1 + {number}) DIV 2 * 2 + 1")
}

/// Where a search for entries of these queues in `distlock_entries` begins: see `distlock_queues`.
/// The server reads that first, and then searches a range of the table's key.
pub(super) fn lowest(names: &str) -> String {
    format!("(SELECT COALESCE(MIN(lowest), 0) FROM distlock_queues WHERE queue IN ({names}))")
}

/// An entry of this queue and the two ahead of it, nearest first, with these columns; `last` is the
/// entry's number. One that is alone in its queue is in the rows that `alone` selects.
pub(super) fn ahead(dir: &str, last: &str, columns: &str, alone: &str) -> String {
    format!(
        "SELECT {columns} FROM (SELECT number, session, ticket, label FROM distlock_entries \
         WHERE queue = {dir} AND number >= {} AND number <= {last} \
         ORDER BY number DESC LIMIT 3) AS ahead \
         UNION ALL {alone} ORDER BY number DESC LIMIT 3",
        lowest(dir)
    )
}

/// A queue's row, as a range. InnoDB reads the last committed version of a row that is locked, and
/// waits for it only if that one will do: but not of a row that is found by its whole key
/// (<https://dev.mysql.com/doc/refman/8.4/en/innodb-transaction-isolation-levels.html>, on
/// semi-consistent reads). So a client that finds a lock taken does not wait for a transaction that
/// keeps it.
pub(super) fn row_of(dir: &str) -> String {
    let next = [dir.as_bytes(), b"\0"].concat();
    format!("queue >= {} AND queue < {}", text(dir), bytes(&next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_tell_where_entries_are() {
        assert!(is_alone(12) && !is_alone(13));
        assert_eq!(next("12"), "12 DIV 2 * 2 + 2");
        assert_eq!(next_of_entries("12"), "(1 + 12) DIV 2 * 2 + 1");
    }
}
