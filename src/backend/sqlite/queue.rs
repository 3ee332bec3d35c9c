//! The queues and their entries.

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use rusqlite::{Result as Sql, Row, params};

use super::{
    error::Failure,
    key::{self, Place},
    tables::Tables,
};
use crate::backend::{
    Detail, Entry, Fate, Joined, LeaveOutcome, Member, Predecessor, Present, Queue, SequencePoint,
    Standing, Ticket,
};

/// Reads the entry of a row that begins with number, session, ticket and label.
fn entry(dir: &str, row: &Row<'_>) -> Sql<Entry> {
    let (number, session, ticket): (i64, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let label: String = row.get(3)?;
    let key = key::written(dir, &format!("{session:x}"), &ticket, &label);
    Ok(Entry::new(key, revision(number)))
}

/// Converts a number. Numbers start at one.
fn revision(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

impl Tables<'_, '_> {
    /// Joins all of these queues or none. `if_free`: only if all queues are empty. The results are
    /// in the order of the joiners.
    pub(super) fn join(
        &self,
        session: i64,
        joiners: &[(Queue, Ticket)],
        value: &[u8],
        if_free: bool,
    ) -> Result<Vec<Option<Joined>>, Failure> {
        self.sweep(session)?;
        let mut free = true;
        for (queue, _) in joiners {
            free &= !if_free || !self.is_occupied(queue.dir())?;
        }
        for (queue, ticket) in joiners.iter().filter(|_| free) {
            // A repeated request finds its entry.
            if self.number_of(session, queue, *ticket)?.is_none() {
                self.add(session, queue, *ticket, value)?;
            }
        }
        joiners.iter().map(|(queue, ticket)| self.joined(session, queue, *ticket)).collect()
    }

    fn is_occupied(&self, dir: &str) -> Sql<bool> {
        self.sql.exists("SELECT 1 FROM distlock_entries WHERE queue = ?1", [dir])
    }

    fn add(
        &self,
        session: i64,
        queue: &Queue,
        ticket: Ticket,
        value: &[u8],
    ) -> Result<(), Failure> {
        let number = self.draw()?;
        let sql = "INSERT INTO distlock_entries \
                   (queue, number, session, ticket, label, value, changed) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?2)";
        let (dir, ticket, label) = (queue.dir(), ticket.to_string(), queue.label());
        self.sql.run(sql, params![dir, number, session, ticket, label, value])?;
        Ok(())
    }

    fn number_of(&self, session: i64, queue: &Queue, ticket: Ticket) -> Sql<Option<i64>> {
        let sql = "SELECT number FROM distlock_entries \
                   WHERE session = ?1 AND ticket = ?2 AND queue = ?3";
        let ticket = ticket.to_string();
        self.sql.first(sql, params![session, ticket, queue.dir()], |row| row.get(0))
    }

    /// Returns `None` if the session has not joined.
    fn joined(
        &self,
        session: i64,
        queue: &Queue,
        ticket: Ticket,
    ) -> Result<Option<Joined>, Failure> {
        let Some(number) = self.number_of(session, queue, ticket)? else { return Ok(None) };
        let Some((entry, standing)) = self.place(queue.dir(), number)? else { return Ok(None) };
        let others = "SELECT 1 FROM distlock_entries WHERE queue = ?1 AND number <> ?2 \
                      UNION ALL SELECT 1 FROM distlock_data WHERE dir = ?1";
        let alone = !self.sql.exists(others, params![queue.dir(), number])?;
        let at = SequencePoint(entry.revision);
        Ok(Some(Joined::Queued { entry, standing, at, alive: None, alone }))
    }

    /// Returns the entry with this number, and its position.
    fn place(&self, dir: &str, number: i64) -> Sql<Option<(Entry, Standing)>> {
        let sql = "SELECT number, session, ticket, label FROM distlock_entries \
                   WHERE queue = ?1 AND number <= ?2 ORDER BY number DESC LIMIT 3";
        let found = self.sql.rows(sql, params![dir, number], |row| entry(dir, row))?;
        let mut found = found.into_iter();
        let own = found.next().filter(|own| own.revision == revision(number));
        let Some(own) = own else { return Ok(None) };
        let standing = found.next().map_or(Standing::First, |entry| {
            let first = found.next().is_none();
            Standing::Behind(Predecessor { entry, first, seen: true })
        });
        Ok(Some((own, standing)))
    }

    pub(super) fn standing(&self, own: &Entry) -> Result<Standing, Failure> {
        let Place { dir, number } = Place::of(own);
        let place = self.place(dir, number)?.filter(|(found, _)| found.key == own.key);
        Ok(place.map_or(Standing::Evicted, |(_, standing)| standing))
    }

    pub(super) fn present(&self, own: &Entry, ahead: &Entry) -> Result<Present, Failure> {
        let ahead = Fate::of(self.is_there(ahead)?.is_some());
        Ok(Present { own: self.is_there(own)?.is_some(), ahead })
    }

    /// Returns when an entry's session ends unless it is renewed, if the entry exists.
    pub(super) fn is_there(&self, wanted: &Entry) -> Sql<Option<i64>> {
        let Place { dir, number } = Place::of(wanted);
        let sql = "SELECT number, session, ticket, label, expires FROM distlock_entries \
                   JOIN distlock_sessions AS s ON s.id = session \
                   WHERE queue = ?1 AND number = ?2";
        let read = |row: &Row<'_>| Ok((entry(dir, row)?, row.get(4)?));
        let found = self.sql.first(sql, params![dir, number], read)?;
        Ok(found.filter(|(found, _)| found.key == wanted.key).map(|(_, expires)| expires))
    }

    /// Returns all keys of the session.
    pub(super) fn own_keys(&self, session: i64) -> Result<Vec<Arc<str>>, Failure> {
        let sql = "SELECT number, session, ticket, label, queue FROM distlock_entries \
                   WHERE session = ?1";
        Ok(self.sql.rows(sql, [session], |row| Ok(entry(&row.get::<_, String>(4)?, row)?.key))?)
    }

    /// Deletes an entry, and checks that the successor exists. The entry must have this number, if
    /// it is known.
    pub(super) fn leave(
        &self,
        session: i64,
        (queue, ticket): &(Queue, Ticket),
        number: Option<i64>,
        successor: Option<i64>,
    ) -> Result<LeaveOutcome, Failure> {
        let sql = "DELETE FROM distlock_entries WHERE session = ?1 AND ticket = ?2 \
                   AND queue = ?3 AND label = ?4 AND (?5 IS NULL OR number = ?5)";
        let (dir, label) = (queue.dir(), queue.label());
        let existed =
            self.sql.run(sql, params![session, ticket.to_string(), dir, label, number])? > 0;
        if existed {
            self.changed.set(true);
        }
        let successor = match successor {
            None => false,
            Some(number) => self.sql.exists(
                "SELECT 1 FROM distlock_entries WHERE queue = ?1 AND number = ?2 AND session = ?3",
                params![dir, number, session],
            )?,
        };
        // All entries up to the last number had joined when the key was deleted.
        Ok(LeaveOutcome { existed, successor, at: SequencePoint(revision(self.drawn()?) + 1) })
    }

    /// Returns all entries of a queue in order.
    pub(super) fn members(&self, session: i64, dir: &str, values: bool) -> Sql<Vec<Member>> {
        let sql = "SELECT number, session, ticket, label, value, version, since \
                   FROM distlock_entries WHERE queue = ?1 ORDER BY number";
        self.sql.rows(sql, [dir], |row| {
            let detail = match values {
                false => None,
                true => Some(Detail {
                    value: row.get(4)?,
                    version: revision(row.get(5)?),
                    since: UNIX_EPOCH.checked_add(Duration::from_millis(revision(row.get(6)?))),
                    own: row.get::<_, i64>(1)? == session,
                }),
            };
            // The part after the `@` is the place that the label was taken from. Here the number
            // has that role.
            let label: String = row.get(3)?;
            let label = label.split('@').next().map(Into::into);
            Ok(Member { entry: entry(dir, row)?, label, detail })
        })
    }

    /// Returns the queues directly below a namespace that have entries.
    pub(super) fn queues(&self, namespace: &str) -> Result<Vec<String>, Failure> {
        let sql = "SELECT DISTINCT queue FROM distlock_entries \
                   WHERE queue >= ?1 AND queue < ?2 ORDER BY queue";
        // `0` is the character after `/`.
        let (from, to) = (format!("{namespace}/"), format!("{namespace}0"));
        let dirs: Vec<String> = self.sql.rows(sql, [&from, &to], |row| row.get(0))?;
        let names = dirs.iter().filter_map(|dir| dir.strip_prefix(&from));
        Ok(names.filter(|name| !name.contains('/')).map(Into::into).collect())
    }
}
