//! Writes values and labels of entries, and the data that belongs to no session.

use rusqlite::{Result as Sql, params};

use super::{
    error::Failure,
    key::{self, Parts, Place},
    tables::Tables,
};
use crate::backend::{Entry, Rewritten, Write};

/// Splits a key at its last slash into directory and name.
fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('/').unwrap_or(("", key))
}

impl Tables<'_, '_> {
    /// Writes a value, if the entry has this version.
    pub(super) fn rewrite(
        &self,
        session: i64,
        entry: &Entry,
        value: &[u8],
        version: u64,
    ) -> Result<Rewritten, Failure> {
        let Place { dir, number } = Place::of(entry);
        let sql = "SELECT version FROM distlock_entries \
                   WHERE queue = ?1 AND number = ?2 AND session = ?3";
        let found: Option<i64> =
            self.sql.first(sql, params![dir, number, session], |row| row.get(0))?;
        let Some(found) = found else { return Ok(Rewritten::Gone) };
        let found = u64::try_from(found).unwrap_or(0);
        if found != version {
            return Ok(Rewritten::Not(found));
        }
        let sql = "UPDATE distlock_entries SET value = ?3, version = version + 1, changed = ?4 \
                   WHERE queue = ?1 AND number = ?2";
        self.sql.run(sql, params![dir, number, value, self.draw()?])?;
        Ok(Rewritten::Done(version + 1))
    }

    /// Gives an entry another label. The entry keeps its number. Returns `false` if it does not
    /// exist.
    pub(super) fn relabel(
        &self,
        session: i64,
        entry: &Entry,
        label: &str,
        value: &[u8],
    ) -> Result<bool, Failure> {
        let Place { dir, number } = Place::of(entry);
        let sql = "UPDATE distlock_entries SET label = ?4, value = ?5, changed = ?6 \
                   WHERE queue = ?1 AND number = ?2 AND session = ?3";
        let changed = self.draw()?;
        let written = self.sql.run(sql, params![dir, number, session, label, value, changed])?;
        Ok(written > 0)
    }

    /// Writes data if all guards exist. Returns `false`, and writes nothing, if one does not.
    pub(super) fn commit(
        &self,
        session: i64,
        guards: &[Entry],
        writes: &[Write],
    ) -> Result<bool, Failure> {
        for guard in guards {
            let own = key::session_of(&guard.key) == Some(session);
            if !own || self.is_there(guard)?.is_none() {
                return Ok(false);
            }
        }
        for write in writes {
            self.write(write)?;
        }
        Ok(true)
    }

    fn write(&self, write: &Write) -> Result<(), Failure> {
        let changed = self.draw()?;
        match write {
            Write::Put { key, value } => {
                let (dir, name) = split(key);
                let sql = "INSERT INTO distlock_data (dir, name, value, changed) \
                           VALUES (?1, ?2, ?3, ?4) ON CONFLICT (dir, name) DO UPDATE \
                           SET value = excluded.value, changed = excluded.changed";
                self.sql.run(sql, params![dir, name, value, changed])?;
            }
            Write::Delete { key } => {
                let (dir, name) = split(key);
                let sql = "DELETE FROM distlock_data WHERE dir = ?1 AND name = ?2";
                self.sql.run(sql, params![dir, name])?;
                if let Some(Parts { dir, session, ticket, label }) = key::parts(key) {
                    let sql = "DELETE FROM distlock_entries WHERE queue = ?1 AND session = ?2 \
                               AND ticket = ?3 AND label = ?4";
                    self.sql.run(sql, params![dir, session, ticket, label])?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn read(&self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        let (dir, name) = split(key);
        let sql = "SELECT value FROM distlock_data WHERE dir = ?1 AND name = ?2";
        Ok(self.sql.first(sql, params![dir, name], |row| row.get(0))?)
    }

    /// Returns the names of the data in a queue's directory.
    pub(super) fn notes(&self, dir: &str) -> Sql<Vec<Box<str>>> {
        let sql = "SELECT name FROM distlock_data WHERE dir = ?1 ORDER BY name";
        self.sql.rows(sql, [dir], |row| row.get::<_, String>(0).map(Into::into))
    }
}
