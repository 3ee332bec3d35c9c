//! A watch that has reported the deletion of its key, kept for the next key of that name.
//!
//! A client that locks repeatedly reuses the name of its key. Where the same clients take turns,
//! each waits behind the same predecessor. The cached watch saves canceling one watch and creating
//! another. It began before the next key was put, so it misses none of that key's events, and no
//! read is needed. A session keeps only one, so a deleted key does not notify more clients than
//! wait for it.

use std::{fmt, sync::Arc};

use crate::runtime::mutex::Mutex;

/// A session's slot for the cached watch.
pub(super) struct CachedWatch<W>(Arc<Mutex<Option<W>>>);

impl<W> Default for CachedWatch<W> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<W> Clone for CachedWatch<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W> fmt::Debug for CachedWatch<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CachedWatch").field(&self.0.lock().is_some()).finish()
    }
}

impl<W> CachedWatch<W> {
    /// Takes the cached watch if it fits.
    pub(super) fn take(&self, fits: impl FnOnce(&W) -> bool) -> Option<W> {
        let mut cached_watch = self.0.lock();
        if cached_watch.as_ref().is_some_and(fits) { cached_watch.take() } else { None }
    }

    /// Caches a watch, and cancels the one that was cached before.
    pub(super) fn keep(&self, watch: W) {
        let before = self.0.lock().replace(watch);
        drop(before);
    }
}
