//! The numbers of entries and changes. They serve as fencing tokens: numbers never decrease, and no
//! number is used twice.
//!
//! Most commits are not flushed, so a power loss undoes the last ones, with the numbers that they
//! drew. Numbers are therefore drawn from a block. The block's end is flushed before its first
//! number is used, and each process that opens the file begins after that end. A number that was
//! drawn by an undone commit is therefore not drawn again.
//!
//! - **The end is `distlock_meta.number`**: no higher number was used. A build that does not know
//!   blocks draws there, one number and one flush at a time, and so never draws from a block. Once
//!   it has drawn, the number is no longer the block's end, and the block is discarded.
//! - **A process relies only on an end that it has flushed itself.** An end that it has only read
//!   may be that of a process which was killed while it flushed. SQLite treats such a commit as
//!   complete when it recovers the WAL.
//! - **Every opening begins a new block**, not only the first one after a boot. A file system that
//!   an error has shut down, or a disk that was unplugged, loses writes without a reboot.

use rusqlite::{Result, params};

use super::{error::Failure, requests::Access, schema, tables::Tables};
use crate::backend::StoreError;

/// The number of numbers that one flush reserves.
const BLOCK: i64 = 1000;

impl Tables<'_, '_> {
    /// Returns `true` if `count` numbers can be drawn without a flush.
    pub(super) fn are_left(&self, count: usize) -> Result<bool> {
        let sql = "SELECT 1 FROM distlock_block \
                   WHERE reserved = (SELECT number FROM distlock_meta) \
                   AND drawn + ?1 <= min(reserved, ?2)";
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        match self.block.end() {
            _ if count == 0 => Ok(true),
            Some(end) => self.sql.exists(sql, [count, end]),
            None => Ok(false),
        }
    }

    /// Returns the next number of an entry or a change. No number is drawn twice.
    pub(super) fn draw(&self) -> Result<i64, Failure> {
        let sql = "UPDATE distlock_block SET drawn = drawn + 1 \
                   WHERE reserved = (SELECT number FROM distlock_meta WHERE version = ?1) \
                   AND drawn < min(reserved, ?2) RETURNING drawn";
        self.changed.set(true);
        let drawn = match self.block.end() {
            Some(end) => self.sql.first(sql, [schema::VERSION, end], |row| row.get(0))?,
            None => None,
        };
        drawn.map_or_else(|| self.reserve(), Ok)
    }

    /// Begins a block, and returns its first number.
    fn reserve(&self) -> Result<i64, Failure> {
        self.known()?;
        if self.access != Access::Flushes {
            let source = "the transaction needs more numbers than it has reserved".into();
            return Err(StoreError::Fatal { operation: "issuing a number", source }.into());
        }
        let end: i64 = self.sql.one("SELECT number FROM distlock_meta", [], |row| row.get(0))?;
        let last = if self.block.end().is_none() { end } else { self.drawn()? };
        let first = last.saturating_add(1);
        // A commit that changes nothing is not flushed, so the end always rises.
        let end = last.saturating_add(BLOCK).max(end.saturating_add(1));
        self.sql.run("UPDATE distlock_meta SET number = ?1", [end])?;
        let sql = "INSERT OR REPLACE INTO distlock_block (id, drawn, reserved) VALUES (1, ?1, ?2)";
        self.sql.run(sql, params![first, end])?;
        self.block.reserve(end);
        Ok(first)
    }

    /// Returns the last number that was drawn. All numbers of a discarded block count as drawn.
    pub(super) fn drawn(&self) -> Result<i64> {
        let sql = "SELECT coalesce((SELECT drawn FROM distlock_block WHERE reserved = number), \
                   number) FROM distlock_meta";
        self.sql.one(sql, [], |row| row.get(0))
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::backend::sqlite::{block::Block, statements::Statements};

    /// Opens a file for several processes. These tests do not depend on the connection.
    fn file() -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::make(&mut connection).unwrap();
        connection
    }

    fn tables<'t, 'c>(sql: &'t Statements<'c>, block: &'t Block, access: Access) -> Tables<'t, 'c> {
        Tables::new(sql, "boot", block, access)
    }

    /// Draws `count` numbers in a transaction that is flushed.
    fn draw(sql: &Statements<'_>, block: &Block, count: usize) -> Vec<i64> {
        let tables = tables(sql, block, Access::Flushes);
        let drawn = (0..count).map(|_| tables.draw().unwrap()).collect();
        block.confirm();
        drawn
    }

    #[test]
    fn block_of_an_earlier_opening_is_not_used() {
        let connection = file();
        let sql = Statements::new(&connection);
        let [one, other] = [(); 2].map(|()| Block::default());
        assert_eq!(draw(&sql, &one, 2), [1, 2]);
        assert_eq!(draw(&sql, &other, 2), [1001, 1002]);
        // The block of the other process does not count.
        assert!(!tables(&sql, &one, Access::Writes).are_left(1).unwrap());
        assert_eq!(draw(&sql, &one, 1), [1003]);
        // Both may now draw up to the end that each has flushed.
        for block in [&one, &other] {
            assert!(tables(&sql, block, Access::Writes).are_left(100).unwrap());
        }
        assert_eq!(tables(&sql, &other, Access::Writes).draw().unwrap(), 1004);
        assert_eq!(tables(&sql, &one, Access::Reads).drawn().unwrap(), 1004);
    }

    #[test]
    fn end_of_block_requires_a_flush() {
        let connection = file();
        let (sql, block) = (Statements::new(&connection), Block::default());
        let unflushed = tables(&sql, &block, Access::Writes);
        assert!(unflushed.are_left(0).unwrap() && !unflushed.are_left(1).unwrap());
        assert!(matches!(unflushed.draw(), Err(Failure::Store(StoreError::Fatal { .. }))));
        draw(&sql, &block, 1);
        assert!(unflushed.are_left(999).unwrap() && !unflushed.are_left(1000).unwrap());
        let drawn: Vec<_> = (0..999).map(|_| unflushed.draw().unwrap()).collect();
        assert!(drawn.into_iter().eq(2..=1000));
        assert!(!unflushed.are_left(1).unwrap() && unflushed.draw().is_err());
        // One transaction may need more than a block.
        assert!(draw(&sql, &block, 2500).into_iter().eq(1001..=3500));
    }

    #[test]
    fn unflushed_block_is_not_used() {
        let connection = file();
        let (sql, block) = (Statements::new(&connection), Block::default());
        assert_eq!(tables(&sql, &block, Access::Flushes).draw().unwrap(), 1);
        block.forget();
        assert!(!tables(&sql, &block, Access::Writes).are_left(1).unwrap());
        assert_eq!(draw(&sql, &block, 1), [1001]);
    }

    #[test]
    fn numbers_of_a_build_without_blocks_rise_with_these() {
        let connection = file();
        let (sql, block) = (Statements::new(&connection), Block::default());
        let old = "UPDATE distlock_meta SET number = number + 1 WHERE version = 1 RETURNING number";
        let old = || sql.one(old, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!((old(), draw(&sql, &block, 2)), (1, vec![2, 3]));
        assert_eq!(old(), 1002);
        let tables = tables(&sql, &block, Access::Writes);
        assert!(!tables.are_left(1).unwrap() && tables.drawn().unwrap() == 1002);
        assert_eq!((draw(&sql, &block, 1), old()), (vec![1003], 2003));
        // An operator may have deleted a row that seemed unused.
        sql.run("DELETE FROM distlock_block", []).unwrap();
        assert_eq!((tables.drawn().unwrap(), draw(&sql, &block, 1)), (2003, vec![2004]));
    }

    #[test]
    fn tables_that_were_changed_meanwhile_are_not_written_to() {
        let connection = file();
        let (sql, block) = (Statements::new(&connection), Block::default());
        assert_eq!(draw(&sql, &block, 2), [1, 2]);
        sql.run("UPDATE distlock_meta SET version = version + 1", []).unwrap();
        for access in [Access::Writes, Access::Flushes] {
            let drawn = tables(&sql, &block, access).draw();
            let Err(Failure::Store(error)) = drawn else { panic!("{drawn:?}") };
            assert!(error.reason().contains("version 2"), "{}", error.reason());
        }
        assert_eq!(tables(&sql, &block, Access::Reads).drawn().unwrap(), 2);
    }
}
