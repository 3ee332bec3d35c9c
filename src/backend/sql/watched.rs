//! Notifications for this client's waiters on an entry or a whole queue.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::watch;

use crate::{
    backend::{Result, StoreError},
    runtime::clock::{Instant, sleep_until},
};

/// A queue's directory and the number of an entry in it, or 0 for the whole queue. The table of
/// watches does not use keys either, because an entry that gets a new key keeps its number.
pub(crate) type What = (Arc<str>, u64);

/// All watched entries and queues, with what is known of each.
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
    /// The connection was lost, and with it the notifications in between.
    Lost,
}

/// A waiter. Call [`Watched::leave`] before it is dropped.
#[derive(Debug)]
pub(crate) struct Waiting {
    what: What,
    pub(crate) notification: watch::Receiver<Notification>,
}

impl Waiting {
    /// Returns when something may have changed.
    pub(crate) async fn changed(&mut self) -> Result<()> {
        // The sender notifies before it is dropped.
        let notification =
            self.notification.wait_for(|notification| *notification != Notification::Pending).await;
        match notification.map(|notification| *notification) {
            Ok(Notification::Changed) => Ok(()),
            _ => Err(StoreError::Unavailable("the connection was lost".into())),
        }
    }
}

impl<T: Default> Watched<T> {
    /// Registers a waiter.
    pub(crate) fn wait(&mut self, what: What) -> Waiting {
        let watched_entry = self.0.entry(what.clone()).or_insert_with(|| WatchedEntry {
            notification: watch::Sender::new(Notification::Pending),
            known: T::default(),
        });
        Waiting { notification: watched_entry.notification.subscribe(), what }
    }

    /// Removes a waiter. Returns `true` if it was the last one.
    pub(crate) fn leave(&mut self, waiting: &Waiting) -> bool {
        let Some(watched_entry) = self.0.get(&waiting.what) else { return false };
        let own = watched_entry.notification.subscribe().same_channel(&waiting.notification);
        // The leaving waiter is still counted.
        let last = own && watched_entry.notification.receiver_count() == 1;
        if last {
            self.0.remove(&waiting.what);
        }
        last
    }

    /// Takes the watched entry and the watched queue that a change affects. Notify their waiters
    /// after the lock on this value is released, because they may query at once.
    #[must_use]
    pub(crate) fn take(&mut self, dir: &str, number: u64) -> Vec<WatchedEntry<T>> {
        let dir: Arc<str> = dir.into();
        [number, 0].into_iter().filter_map(|of| self.0.remove(&(Arc::clone(&dir), of))).collect()
    }

    /// Notifies all waiters that the connection was lost.
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

/// Sleeps until then, or for ever without a time.
pub(crate) async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
