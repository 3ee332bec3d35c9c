//! The tables within one transaction, and their sessions.
//!
//! All writers of a file run one after another. `BEGIN IMMEDIATE` waits until no other connection
//! writes, and reads after it see what the last writer has committed. Numbers from the one row of
//! `distlock_block` are therefore in the order of the commits, and a client that reads its
//! predecessors sees all of them.
//!
//! **Time.** Sessions expire by `CLOCK_BOOTTIME`, which all processes of a host share. A holder and
//! the client that removes its session read the same clock, so no margin for differing clocks is
//! needed. The clock is never set, and continues while the host sleeps. It restarts with a boot,
//! which has another id: sessions of another boot are over. The clock is read after the transaction
//! has begun. If the process is then paused, it works with a time in the past: it finds fewer dead
//! sessions than there are, and renews for less than a TTL.

use std::cell::{Cell, RefCell};

use rusqlite::{Params, Result, params};

use super::{
    block::Block, error::Failure, requests::Access, schema, statements::Statements,
    watched_entry::WatchedEntry,
};
use crate::{backend::StoreError, lost::LostReason, runtime::clock};

/// Returns the milliseconds of the clock that all processes of a host share.
pub(crate) fn now() -> i64 {
    i64::try_from(clock::now().as_millis()).unwrap_or(i64::MAX)
}

/// Selects the expired sessions, except the caller's own.
macro_rules! dead {
    () => {
        "distlock_sessions WHERE id <> ?1 AND (boot <> ?2 OR expires < ?3)"
    };
}

/// The tables as of one transaction.
pub(super) struct Tables<'t, 'c> {
    pub(super) sql: &'t Statements<'c>,
    /// The time when the transaction began.
    pub(super) now: i64,
    boot: &'t str,
    pub(super) block: &'t Block,
    /// If the transaction writes, no other connection writes at the same time.
    pub(super) access: Access,
    /// The transaction has written something that a waiter may watch.
    pub(super) changed: Cell<bool>,
    /// The watches that begin with this transaction.
    pub(super) watched: RefCell<Vec<WatchedEntry>>,
}

impl<'t, 'c> Tables<'t, 'c> {
    pub(super) fn new(
        sql: &'t Statements<'c>,
        boot: &'t str,
        block: &'t Block,
        access: Access,
    ) -> Self {
        let (changed, watched) = Default::default();
        Self { sql, now: now(), boot, block, access, changed, watched }
    }

    /// Begins a session.
    pub(super) fn open(&self, session: i64, ttl: i64) -> Result<(), Failure> {
        self.known()?;
        self.sweep(session)?;
        let sql = "INSERT INTO distlock_sessions (id, boot, ttl, expires) VALUES (?1, ?2, ?3, ?4)";
        self.sql.run(sql, params![session, self.boot, ttl, self.now + ttl])?;
        Ok(())
    }

    /// Fails if the session was removed. An expired session that was not removed yet keeps its
    /// locks.
    pub(super) fn enter(&self, session: i64) -> Result<(), Failure> {
        match self.sql.exists("SELECT 1 FROM distlock_sessions WHERE id = ?1", [session])? {
            true => Ok(()),
            false => Err(gone().into()),
        }
    }

    /// Renews the session from now on; the client counts from when it sent the request. A session
    /// that still exists keeps its locks even if it is late, as no other client was granted them.
    pub(super) fn keep_alive(&self, session: i64) -> Result<(), Failure> {
        let sql = "UPDATE distlock_sessions SET expires = ?2 + ttl WHERE id = ?1";
        match self.sql.run(sql, [session, self.now])? {
            0 => Err(gone().into()),
            _ => Ok(()),
        }
    }

    pub(super) fn close(&self, session: i64) -> Result<(), Failure> {
        self.sql.run("DELETE FROM distlock_sessions WHERE id = ?1", [session])?;
        self.changed.set(true);
        Ok(())
    }

    /// Removes the expired sessions, except the caller's own, and with them their entries.
    pub(super) fn sweep(&self, session: i64) -> Result<()> {
        if self.access == Access::Reads || !self.is_anybody_over(session)? {
            return Ok(());
        }
        self.sql.run(concat!("DELETE FROM ", dead!()), self.dead(session))?;
        self.changed.set(true);
        Ok(())
    }

    /// Returns `true` if there are expired sessions to remove.
    pub(super) fn is_anybody_over(&self, session: i64) -> Result<bool> {
        self.sql.exists(concat!("SELECT 1 FROM ", dead!()), self.dead(session))
    }

    fn dead(&self, session: i64) -> impl Params {
        (session, self.boot.to_owned(), self.now)
    }

    /// Checks the version. A newer build may have changed the tables since this one opened the
    /// file.
    pub(super) fn known(&self) -> Result<(), Failure> {
        let version = self.sql.first("SELECT version FROM distlock_meta", [], |row| row.get(0))?;
        schema::check(version.unwrap_or(0))
    }
}

fn gone() -> StoreError {
    StoreError::SessionGone(LostReason::SessionExpired)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::backend::sqlite::schema;

    /// Sessions do not depend on numbers.
    fn tables<'t, 'c>(
        sql: &'t Statements<'c>,
        block: &'t Block,
        boot: &'t str,
        later: i64,
    ) -> Tables<'t, 'c> {
        Tables { now: 1000 + later, ..Tables::new(sql, boot, block, Access::Writes) }
    }

    fn is_gone(result: Result<(), Failure>) -> bool {
        matches!(result, Err(Failure::Store(StoreError::SessionGone(_))))
    }

    #[test]
    fn overdue_session_lives_until_removed() {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::make(&mut connection).unwrap();
        let (sql, block) = (Statements::new(&connection), Block::default());
        let at = |later| tables(&sql, &block, "boot", later);
        at(0).open(1, 100).unwrap();
        at(0).open(2, 1000).unwrap();
        at(100).sweep(2).unwrap();
        at(150).enter(1).unwrap();
        // No other session has joined, and a session does not remove itself.
        at(150).sweep(1).unwrap();
        at(150).keep_alive(1).unwrap();
        at(250).sweep(2).unwrap();
        at(250).enter(1).unwrap();
        at(251).sweep(2).unwrap();
        assert!(is_gone(at(251).enter(1)) && is_gone(at(251).keep_alive(1)));
        // After a boot the clock restarts, so earlier times mean nothing.
        tables(&sql, &block, "next", -900).sweep(3).unwrap();
        assert!(is_gone(at(251).enter(2)));
    }

    #[test]
    fn reader_removes_no_expired_session() {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::make(&mut connection).unwrap();
        let (sql, block) = (Statements::new(&connection), Block::default());
        tables(&sql, &block, "boot", 0).open(1, 100).unwrap();
        let reader = Tables::new(&sql, "boot", &block, Access::Reads);
        let reader = Tables { now: 2000, ..reader };
        reader.sweep(2).unwrap();
        assert!(reader.is_anybody_over(2).unwrap() && !reader.changed.get());
        reader.enter(1).unwrap();
    }
}
