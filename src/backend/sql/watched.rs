//! What those who wait here are told, of an entry or of a queue as a whole.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::watch;

use crate::{
    backend::{Result, StoreError},
    runtime::clock::{Instant, sleep_until},
};

/// A queue's directory and the number of an entry in it, or 0 for anything in it. As in the table
/// of watches, and not by keys: an entry may get another key, and keep its number.
pub(crate) type What = (Arc<str>, u64);

/// All that is waited for, with what is known of each.
#[derive(Debug, Default)]
pub(crate) struct Watched<T>(pub(crate) HashMap<What, WatchedEntry<T>>);

#[derive(Debug)]
pub(crate) struct WatchedEntry<T> {
    told: watch::Sender<Told>,
    pub(crate) known: T,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Nothing,
    News,
    /// The connection is gone, and what came meanwhile will not be told.
    Lost,
}

/// One who waits. Before it is dropped, [`Watched::leave`] has to be told.
#[derive(Debug)]
pub(crate) struct Waiting {
    what: What,
    pub(crate) told: watch::Receiver<Told>,
}

impl Waiting {
    /// Returns when something may have happened.
    pub(crate) async fn news(&mut self) -> Result<()> {
        // The sender goes after it has spoken.
        let told = self.told.wait_for(|told| *told != Told::Nothing).await;
        match told.map(|told| *told) {
            Ok(Told::News) => Ok(()),
            _ => Err(StoreError::Unavailable("the connection was lost".into())),
        }
    }
}

impl<T: Default> Watched<T> {
    /// Begins to listen.
    pub(crate) fn wait(&mut self, what: What) -> Waiting {
        let watched_entry = self.0.entry(what.clone()).or_insert_with(|| WatchedEntry {
            told: watch::Sender::new(Told::Nothing),
            known: T::default(),
        });
        Waiting { told: watched_entry.told.subscribe(), what }
    }

    /// One less waits. Tells whether it was the last one.
    pub(crate) fn leave(&mut self, waiting: &Waiting) -> bool {
        let Some(watched_entry) = self.0.get(&waiting.what) else { return false };
        let own = watched_entry.told.subscribe().same_channel(&waiting.told);
        // The one that leaves is counted still.
        let last = own && watched_entry.told.receiver_count() == 1;
        if last {
            self.0.remove(&waiting.what);
        }
        last
    }

    /// Something has happened to an entry, or in a queue. Those who wait for it are to be told
    /// without the lock that this is kept by: they may look at once.
    #[must_use]
    pub(crate) fn take(&mut self, dir: &str, number: u64) -> Vec<WatchedEntry<T>> {
        let dir: Arc<str> = dir.into();
        [number, 0].into_iter().filter_map(|of| self.0.remove(&(Arc::clone(&dir), of))).collect()
    }

    /// The connection is gone.
    pub(crate) fn lose(self) {
        for watched_entry in self.0.into_values() {
            watched_entry.told.send_replace(Told::Lost);
        }
    }
}

impl<T> WatchedEntry<T> {
    pub(crate) fn tell(self) {
        self.told.send_replace(Told::News);
    }
}

/// Sleeps until then; without a time, for ever.
pub(crate) async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
