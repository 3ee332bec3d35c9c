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
    notification: watch::Sender<Notification>,
    pub(crate) known: T,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notification {
    Pending,
    Changed,
    /// The connection is gone, and what came meanwhile will not be told.
    Lost,
}

/// One who waits. Before it is dropped, [`Watched::leave`] has to be told.
#[derive(Debug)]
pub(crate) struct Waiting {
    what: What,
    pub(crate) notification: watch::Receiver<Notification>,
}

impl Waiting {
    /// Returns when something may have happened.
    pub(crate) async fn changed(&mut self) -> Result<()> {
        // The sender goes after it has spoken.
        let notification =
            self.notification.wait_for(|notification| *notification != Notification::Pending).await;
        match notification.map(|notification| *notification) {
            Ok(Notification::Changed) => Ok(()),
            _ => Err(StoreError::Unavailable("the connection was lost".into())),
        }
    }
}

impl<T: Default> Watched<T> {
    /// Begins to listen.
    pub(crate) fn wait(&mut self, what: What) -> Waiting {
        let watched_entry = self.0.entry(what.clone()).or_insert_with(|| WatchedEntry {
            notification: watch::Sender::new(Notification::Pending),
            known: T::default(),
        });
        Waiting { notification: watched_entry.notification.subscribe(), what }
    }

    /// One less waits. Tells whether it was the last one.
    pub(crate) fn leave(&mut self, waiting: &Waiting) -> bool {
        let Some(watched_entry) = self.0.get(&waiting.what) else { return false };
        let own = watched_entry.notification.subscribe().same_channel(&waiting.notification);
        // The one that leaves is counted still.
        let last = own && watched_entry.notification.receiver_count() == 1;
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
            watched_entry.notification.send_replace(Notification::Lost);
        }
    }
}

impl<T> WatchedEntry<T> {
    pub(crate) fn notify(self) {
        self.notification.send_replace(Notification::Changed);
    }
}

/// Sleeps until then; without a time, for ever.
pub(crate) async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
