//! Where entries are stored. An entry that is alone in its queue is a row of `distlock_alone`, and
//! each other entry a row of `distlock_entries`. **Even numbers belong to the first table and odd
//! numbers to the second**, so the number shows the table. An entry stays in its table when others
//! join or leave.

use super::literal::{bytes, text};

/// The columns of an entry's key: see `sql/key.rs`.
pub(super) const NAME: &str = "number, LOWER(HEX(session)), ticket, label";

/// Returns `true` if the entry with this number is in `distlock_alone`, where it stays when others
/// join.
pub(super) fn is_alone(number: u64) -> bool {
    number.is_multiple_of(2)
}

/// Returns the table of the entry with this number.
pub(super) fn table_of(number: u64) -> &'static str {
    if is_alone(number) { "distlock_alone" } else { "distlock_entries" }
}

/// Returns the next number after this one in `distlock_alone`.
pub(super) fn next(number: &str) -> String {
    format!("{number} DIV 2 * 2 + 2")
}

/// Returns the next number after this one in `distlock_entries`.
pub(super) fn next_of_entries(number: &str) -> String {
    format!("(1 + {number}) DIV 2 * 2 + 1")
}

/// Returns where a search for entries of these queues in `distlock_entries` begins: see
/// `distlock_queues`. The server reads that value first, and then searches a range of the table's
/// key.
pub(super) fn lowest(names: &str) -> String {
    format!("(SELECT COALESCE(MIN(lowest), 0) FROM distlock_queues WHERE queue IN ({names}))")
}

/// Returns an entry of this queue and the two ahead of it, nearest first, with these columns.
/// `last` is the entry's number, and `alone` selects the rows with entries that are alone in their
/// queues.
pub(super) fn ahead(dir: &str, last: &str, columns: &str, alone: &str) -> String {
    format!(
        "SELECT {columns} FROM (SELECT number, session, ticket, label FROM distlock_entries \
         WHERE queue = {dir} AND number >= {} AND number <= {last} \
         ORDER BY number DESC LIMIT 3) AS ahead \
         UNION ALL {alone} ORDER BY number DESC LIMIT 3",
        lowest(dir)
    )
}

/// Returns the condition for a queue's row, as a range. InnoDB reads the last committed version of
/// a locked row, and waits for the lock only if that version matches. It always waits if the row is
/// found by its whole key
/// (<https://dev.mysql.com/doc/refman/8.4/en/innodb-transaction-isolation-levels.html>, on
/// semi-consistent reads). With a range, a client that finds a lock taken does not wait for a
/// transaction that has locked the row.
pub(super) fn row_of(dir: &str) -> String {
    let next = [dir.as_bytes(), b"\0"].concat();
    format!("queue >= {} AND queue < {}", text(dir), bytes(&next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_number_determines_its_table() {
        assert!(is_alone(12) && !is_alone(13));
        assert_eq!(next("12"), "12 DIV 2 * 2 + 2");
        assert_eq!(next_of_entries("12"), "(1 + 12) DIV 2 * 2 + 1");
    }
}
