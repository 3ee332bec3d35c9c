//! Cached prepared statements, as the same statements run again and again.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
};

use rusqlite::{Connection, Params, Result, Row, Statement, config::DbConfig};

/// The statements of one connection.
pub(super) struct Statements<'c> {
    connection: &'c Connection,
    known: RefCell<HashMap<&'static str, Statement<'c>>>,
    /// Whether commits are flushed, or `None` if that was not set yet.
    flushes: Cell<Option<bool>>,
}

impl<'c> Statements<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        let (known, flushes) = Default::default();
        Self { connection, known, flushes }
    }

    /// Sets whether the following commits are flushed. SQLite accepts this only between two
    /// transactions.
    pub(super) fn flush(&self, flush: bool) -> Result<()> {
        if self.flushes.get() != Some(flush) {
            let level = if flush { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.flushes.set(Some(flush));
        }
        Ok(())
    }

    /// Returns `true` if no transaction is open.
    pub(super) fn is_idle(&self) -> bool {
        self.connection.is_autocommit()
    }

    /// Disables the checkpoint that SQLite makes when the last connection closes.
    pub(super) fn close_alone(&self) -> Result<bool> {
        self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
    }

    fn with<T>(
        &self,
        sql: &'static str,
        use_it: impl FnOnce(&mut Statement<'c>) -> Result<T>,
    ) -> Result<T> {
        let mut known = self.known.borrow_mut();
        if !known.contains_key(sql) {
            known.insert(sql, self.connection.prepare(sql)?);
        }
        known.get_mut(sql).map_or(Err(rusqlite::Error::InvalidQuery), use_it)
    }

    /// Runs a statement, and returns the number of rows written.
    pub(super) fn run(&self, sql: &'static str, params: impl Params) -> Result<usize> {
        self.with(sql, |statement| statement.execute(params))
    }

    pub(super) fn exists(&self, sql: &'static str, params: impl Params) -> Result<bool> {
        self.with(sql, |statement| statement.exists(params))
    }

    pub(super) fn rows<T>(
        &self,
        sql: &'static str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.with(sql, |statement| statement.query_map(params, read)?.collect())
    }

    pub(super) fn first<T>(
        &self,
        sql: &'static str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        Ok(self.rows(sql, params, read)?.into_iter().next())
    }

    pub(super) fn one<T>(
        &self,
        sql: &'static str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        self.first(sql, params, read)?.ok_or(rusqlite::Error::QueryReturnedNoRows)
    }
}
