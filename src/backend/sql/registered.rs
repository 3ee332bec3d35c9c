//! A waiter for changes of a key or a queue.

use std::sync::Arc;

use super::{
    key,
    outcome::{Outcome, Row},
    replies::{left, nonsense},
    watched::{Waiting, What},
    watches::Watches,
};
use crate::backend::{Entry, Event, Result, Watch};

/// The column after those of an entry's key: how long its session has left.
const LEFT: usize = 4;

/// Ends the watch when it is dropped, unless another waiter of this client shares it.
pub(crate) struct Registered {
    watches: Arc<Watches>,
    waiting: Waiting,
    what: What,
    /// The server has registered the watch.
    known: bool,
    untell: Box<dyn Fn(&What) + Send + Sync>,
}

impl Registered {
    /// `untell` ends the watch on the server.
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

    /// Creates a watch on this entry from the server's row for its number. The row ends with the
    /// milliseconds that its session has left. `session`: this client's own.
    pub(crate) fn on(
        mut self,
        session: i64,
        entry: &Entry,
        reply: &Outcome,
    ) -> Result<Option<Watch>> {
        let is_it =
            |row: &&Row| key::entry(&self.what.0, row).is_some_and(|found| found.key == entry.key);
        let Some(row) = reply.first().filter(is_it) else {
            // The entry has a new key, so the server's watch on its number is useless and has to
            // end.
            self.known = reply.first().is_some();
            return Ok(None);
        };
        if let Some(owner) = key::session_of(&entry.key).filter(|owner| *owner != session) {
            let end = left(row.number(LEFT).ok_or_else(nonsense)?);
            self.watches.note(&self.what, [(owner, end)]);
        }
        Ok(Some(self.until(Event::Deleted)))
    }

    /// Creates a watch on a queue from the rows of its entries.
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
