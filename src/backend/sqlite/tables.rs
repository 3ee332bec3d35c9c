//! The tables within one transaction, and the sessions in them.
//!
//! All writers of a file come after one another: `BEGIN IMMEDIATE` waits until nobody else writes,
//! and what is read after it is what the last one has left. So numbers that are drawn from the one
//! row of `distlock_block` are in the order of the commits, and who reads who is ahead reads the
//! truth.
//!
//! **Time.** Sessions end by `CLOCK_BOOTTIME`, which is one clock for all processes of a host: a
//! holder and one who puts it away read the very same, so that nothing has to be allowed for two
//! clocks that differ. It is not set, it goes on while the host sleeps, and it begins anew with a
//! boot, which has another id: a session of another boot is over. The clock is read once a
//! transaction has begun. Should the process be stopped then, it goes by a time that has passed: it
//! takes fewer for dead than are, and what it renews is renewed for less.

use std::cell::{Cell, RefCell};

use rusqlite::{Params, Result, params};

use super::{
    block::Block, error::Failure, requests::Access, schema, statements::Statements,
    watched_entry::WatchedEntry,
};
use crate::{backend::StoreError, lost::LostReason, runtime::clock};

/// Milliseconds of the clock that all processes of a host share.
pub(crate) fn now() -> i64 {
    i64::try_from(clock::now().as_millis()).unwrap_or(i64::MAX)
}

/// The sessions that are over, but for the asker's own.
macro_rules! dead {
    () => {
        "distlock_sessions WHERE id <> ?1 AND (boot <> ?2 OR expires < ?3)"
    };
}

/// The tables as of one transaction.
pub(super) struct Tables<'t, 'c> {
    pub(super) sql: &'t Statements<'c>,
    /// When it began.
    pub(super) now: i64,
    boot: &'t str,
    pub(super) block: &'t Block,
    /// If it writes, nobody else does meanwhile.
    pub(super) access: Access,
    /// Something was written that somebody may wait for.
    pub(super) changed: Cell<bool>,
    /// Those who begin to wait, as of this transaction.
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

    /// Fails if the session was put away. One that is over by the clock and still there holds what
    /// it held.
    pub(super) fn enter(&self, session: i64) -> Result<(), Failure> {
        match self.sql.exists("SELECT 1 FROM distlock_sessions WHERE id = ?1", [session])? {
            true => Ok(()),
            false => Err(gone().into()),
        }
    }

    /// Counts from now: the client counts from when it asked. A session that is still there holds
    /// what it held, though it be late: nobody was let in meanwhile.
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

    /// Puts away the sessions that are over but for the asker's own, and their entries by that.
    pub(super) fn sweep(&self, session: i64) -> Result<()> {
        if self.access == Access::Reads || !self.is_anybody_over(session)? {
            return Ok(());
        }
        self.sql.run(concat!("DELETE FROM ", dead!()), self.dead(session))?;
        self.changed.set(true);
        Ok(())
    }

    /// Whether there are sessions to be put away.
    pub(super) fn is_anybody_over(&self, session: i64) -> Result<bool> {
        self.sql.exists(concat!("SELECT 1 FROM ", dead!()), self.dead(session))
    }

    fn dead(&self, session: i64) -> impl Params {
        (session, self.boot.to_owned(), self.now)
    }

    /// A later build may have changed the tables since this one has opened the file.
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

    /// What sessions are has nothing to do with numbers.
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
    fn a_late_session_lives_until_it_is_put_away() {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::make(&mut connection).unwrap();
        let (sql, block) = (Statements::new(&connection), Block::default());
        let at = |later| tables(&sql, &block, "boot", later);
        at(0).open(1, 100).unwrap();
        at(0).open(2, 1000).unwrap();
        at(100).sweep(2).unwrap();
        at(150).enter(1).unwrap();
        // Nobody has come meanwhile, and it does not put itself away.
        at(150).sweep(1).unwrap();
        at(150).keep_alive(1).unwrap();
        at(250).sweep(2).unwrap();
        at(250).enter(1).unwrap();
        at(251).sweep(2).unwrap();
        assert!(is_gone(at(251).enter(1)) && is_gone(at(251).keep_alive(1)));
        // After a boot the clock begins anew, and what it showed before is nothing to go by.
        tables(&sql, &block, "next", -900).sweep(3).unwrap();
        assert!(is_gone(at(251).enter(2)));
    }

    #[test]
    fn one_who_only_reads_puts_nobody_away() {
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
