//! One who waits for what happens to a key, or in a queue.

use std::sync::Arc;

use super::{
    key,
    outcome::{Outcome, Row},
    replies::{left, nonsense},
    watched::{Waiting, What},
    watches::Watches,
};
use crate::backend::{Entry, Event, Result, Watch};

/// The column, after those of an entry's key, that tells how long its session has left.
const LEFT: usize = 4;

/// Takes the watch back if it is dropped, and nobody else here has it.
pub(crate) struct Registered {
    watches: Arc<Watches>,
    waiting: Waiting,
    what: What,
    /// The server knows of it.
    known: bool,
    untell: Box<dyn Fn(&What) + Send + Sync>,
}

impl Registered {
    /// `untell` tells the server that nobody waits for it any more.
    pub(crate) fn new(
        watches: &Arc<Watches>,
        (dir, number): (&str, u64),
        untell: impl Fn(&What) + Send + Sync + 'static,
    ) -> Self {
        let what: What = (dir.into(), number);
        let waiting = watches.wait(what.clone());
        let (watches, untell) = (Arc::clone(watches), Box::new(untell));
        Self { watches, waiting, what, known: true, untell }
    }

    /// A watch on this entry, by what the server has told of the one with its number: a row that
    /// ends with how many milliseconds its session has left. `session`: one's own.
    pub(crate) fn on(
        mut self,
        session: i64,
        entry: &Entry,
        reply: &Outcome,
    ) -> Result<Option<Watch>> {
        let is_it =
            |row: &&Row| key::entry(&self.what.0, row).is_some_and(|found| found.key == entry.key);
        let Some(row) = reply.first().filter(is_it) else {
            // What has its number and another name is watched in vain.
            self.known = reply.first().is_some();
            return Ok(None);
        };
        if let Some(owner) = key::session_of(&entry.key).filter(|owner| *owner != session) {
            let end = left(row.number(LEFT).ok_or_else(nonsense)?);
            self.watches.note(&self.what, [(owner, end)]);
        }
        Ok(Some(self.until(Event::Deleted)))
    }

    /// A watch on a queue, by the rows of those who stand in it.
    pub(crate) fn on_queue(self, session: i64, rows: &[Row]) -> Watch {
        let end = |row: &Row| {
            let owner = i64::from_str_radix(row.text(1)?, 16).ok()?;
            Some((owner, left(row.number(LEFT)?))).filter(|(owner, _)| *owner != session)
        };
        self.watches.note(&self.what, rows.iter().filter_map(end));
        self.until(Event::Touched)
    }

    fn until(mut self, event: Event) -> Watch {
        Box::pin(async move { self.waiting.changed().await.map(|()| event) })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.watches.leave(&self.waiting, || {
            if self.known {
                (self.untell)(&self.what);
            }
        });
    }
}
