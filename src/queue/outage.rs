//! Since when a stream has been cut off from the store.

use std::{sync::Arc, time::Duration};

use crate::runtime::{clock::Instant, mutex::Mutex};

/// Since when requests have failed, shared by a stream and what looks for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outage(Arc<Mutex<Option<Instant>>>);

impl Outage {
    /// A request failed, or the session is over. The first failure counts.
    pub(super) fn begin(&self) {
        self.0.lock().get_or_insert_with(Instant::now);
    }

    /// The store has replied.
    pub(super) fn end(&self) {
        *self.0.lock() = None;
    }

    pub(super) fn time(&self) -> Option<Duration> {
        self.0.lock().map(|since| since.elapsed())
    }
}
