//! Who waits in this process for what happens in the file.
//!
//! SQLite tells nobody anything. `PRAGMA data_version` says whether another connection has
//! committed since; so the file's one thread asks for that again and again while anybody waits, and
//! looks at the rows that are waited for only when it says so, or when this process has written
//! itself. What a row shows is told; that there was a commit proves nothing.

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

/// How long it is until the next question, if something has just happened, and at most.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(10);
/// For so long things go on happening.
const BRISK: Duration = Duration::from_millis(50);

/// Those who wait.
#[derive(Debug)]
pub(super) struct Watches {
    watched: Vec<WatchedEntry>,
    /// When the first session ends of those whose end somebody waits for.
    due: Option<i64>,
    /// When something has happened last.
    news: Duration,
}

impl Default for Watches {
    fn default() -> Self {
        Self { watched: Vec::new(), due: None, news: clock::now() }
    }
}

impl Tables<'_, '_> {
    /// Begins to wait, as of this transaction. What happens later is told.
    pub(super) fn wait(&self, what: What) -> oneshot::Receiver<Result<Event, StoreError>> {
        let (event, receiver) = oneshot::channel();
        self.watched.borrow_mut().push(WatchedEntry { what, event });
        receiver
    }

    /// How the queue looks; and when the first of its sessions ends.
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
            self.news = clock::now();
            // How long their sessions live is not known yet.
            self.due = Some(0);
        }
        self.watched.extend(watched);
    }

    /// When to look whether the file was written to; `None`: nobody waits.
    pub(super) fn pause(&mut self) -> Option<Duration> {
        self.watched.retain(|watched_entry| !watched_entry.event.is_closed());
        if self.watched.is_empty() {
            return None;
        }
        let quiet = clock::now().saturating_sub(self.news);
        Some(if quiet < BRISK { SHORTEST } else { (quiet / 50).clamp(SHORTEST, LONGEST) })
    }

    /// A session may have ended that somebody waits for: nobody writes that down.
    pub(super) fn is_due(&self) -> bool {
        self.due.is_some_and(|due| due <= now())
    }

    /// Looks at all that is waited for, and tells those who wait. Gives how many.
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
        self.news = clock::now();
        let count = changed.len() as u64;
        for (at, event) in changed.into_iter().rev() {
            // It may have gone.
            let _ = self.watched.swap_remove(at).event.send(Ok(event));
        }
        Ok(count)
    }

    /// Nothing more will be told of the file.
    pub(super) fn lose(&mut self, why: impl Fn() -> StoreError) {
        self.due = None;
        for watched_entry in self.watched.drain(..) {
            let _ = watched_entry.event.send(Err(why()));
        }
    }
}
