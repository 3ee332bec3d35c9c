//! A watch that has told of its key's end, kept for the next key of that name.
//!
//! A client that locks again and again uses its key's name again, and where the same clients take
//! turns each one waits behind the same other one. The server has such a watch already: it need not
//! be canceled and made anew, and as it began before the next key was put it misses nothing of it,
//! so that nobody has to look what happened before it began. One for each session: a key that ends
//! is told to no more clients than wait for one.

use std::{fmt, sync::Arc};

use crate::runtime::mutex::Mutex;

/// Where a session keeps it.
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
    /// The watch that is kept, if it fits.
    pub(super) fn take(&self, fits: impl FnOnce(&W) -> bool) -> Option<W> {
        let mut cached_watch = self.0.lock();
        if cached_watch.as_ref().is_some_and(fits) { cached_watch.take() } else { None }
    }

    /// In place of the one before, which is canceled.
    pub(super) fn keep(&self, watch: W) {
        let before = self.0.lock().replace(watch);
        drop(before);
    }
}
