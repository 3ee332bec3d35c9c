//! The waiters of this process for changes in the file.
//!
//! SQLite has no notifications. `PRAGMA data_version` shows whether another connection has
//! committed. While there are waiters, the file's thread polls it. The thread reads the watched
//! rows only after such a commit, after a write of this process, or when a watched session may have
//! expired. Only the content of a row leads to a notification: a commit alone proves nothing.

use std::time::Duration;

use rusqlite::{Result, params};
use tokio::sync::oneshot;

use super::{
    tables::{Tables, now},
    watched_entry::{Look, WatchedEntry, What},
};
use crate::{
    backend::{Event, StoreError},
    runtime::clock,
};

/// The pause before the next query, at least and at most.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(10);
/// How long after an event the shortest pause is used.
const BRISK: Duration = Duration::from_millis(50);

/// The waiters.
#[derive(Debug)]
pub(super) struct Watches {
    watched: Vec<WatchedEntry>,
    /// The earliest end of a session that a waiter watches.
    due: Option<i64>,
    /// The time of the last event.
    changed_at: Duration,
}

impl Default for Watches {
    fn default() -> Self {
        Self { watched: Vec::new(), due: None, changed_at: clock::now() }
    }
}

impl Tables<'_, '_> {
    /// Begins a watch, as of this transaction. It reports any later change.
    pub(super) fn wait(&self, what: What) -> oneshot::Receiver<Result<Event, StoreError>> {
        let (event, receiver) = oneshot::channel();
        self.watched.borrow_mut().push(WatchedEntry { what, event });
        receiver
    }

    /// Returns the digest of a queue, and when the first of its sessions expires.
    pub(super) fn look(&self, dir: &str) -> Result<(Look, Option<i64>)> {
        let sql = "SELECT entries.*, data.* FROM \
                   (SELECT count(*), coalesce(max(changed), 0), min(expires) \
                   FROM distlock_entries JOIN distlock_sessions AS s ON s.id = session \
                   WHERE queue = ?1) AS entries, \
                   (SELECT count(*), coalesce(max(changed), 0) \
                   FROM distlock_data WHERE dir = ?1) AS data";
        self.sql.one(sql, params![dir], |row| {
            let look = [row.get(0)?, row.get(1)?, row.get(3)?, row.get(4)?];
            Ok((Look(look), row.get(2)?))
        })
    }
}

impl Watches {
    pub(super) fn add(&mut self, watched: Vec<WatchedEntry>) {
        if !watched.is_empty() {
            self.changed_at = clock::now();
            // The ends of their sessions are not known yet.
            self.due = Some(0);
        }
        self.watched.extend(watched);
    }

    /// Returns the pause before the next query, or `None` if there are no waiters.
    pub(super) fn pause(&mut self) -> Option<Duration> {
        self.watched.retain(|watched_entry| !watched_entry.event.is_closed());
        if self.watched.is_empty() {
            return None;
        }
        let quiet = clock::now().saturating_sub(self.changed_at);
        Some(if quiet < BRISK { SHORTEST } else { (quiet / 50).clamp(SHORTEST, LONGEST) })
    }

    /// Returns `true` if a watched session may have expired, which no commit shows.
    pub(super) fn is_due(&self) -> bool {
        self.due.is_some_and(|due| due <= now())
    }

    /// Checks all watches, and notifies the waiters. Returns the number of notified waiters.
    pub(super) fn look(&mut self, tables: &Tables<'_, '_>) -> Result<u64> {
        let mut due: Option<i64> = None;
        let mut live = |expires: i64| due = Some(due.map_or(expires, |due| due.min(expires)));
        let mut changed = Vec::new();
        for (at, watched_entry) in self.watched.iter().enumerate() {
            match &watched_entry.what {
                What::Entry(entry) => match tables.is_there(entry)? {
                    Some(expires) => live(expires + 1),
                    None => changed.push((at, Event::Deleted)),
                },
                What::Queue(dir, before) => {
                    let (look, expires) = tables.look(dir)?;
                    if look != *before {
                        changed.push((at, Event::Touched));
                    } else if let Some(expires) = expires {
                        live(expires + 1);
                    }
                }
            }
        }
        self.due = due;
        self.changed_at = clock::now();
        let count = changed.len() as u64;
        for (at, event) in changed.into_iter().rev() {
            // The waiter may have gone.
            let _ = self.watched.swap_remove(at).event.send(Ok(event));
        }
        Ok(count)
    }

    /// Ends all watches, as the file is no longer usable.
    pub(super) fn lose(&mut self, why: impl Fn() -> StoreError) {
        self.due = None;
        for watched_entry in self.watched.drain(..) {
            let _ = watched_entry.event.send(Err(why()));
        }
    }
}
