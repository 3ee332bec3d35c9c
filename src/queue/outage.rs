//! Tracks how long a stream has been cut off from the store.

use std::{sync::Arc, time::Duration};

use crate::runtime::{clock::Instant, mutex::Mutex};

/// The time since which requests have failed, shared by a stream and its handles.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outage(Arc<Mutex<Option<Instant>>>);

impl Outage {
    /// Records a failed request or the end of the session. Only the first failure sets the time.
    pub(super) fn begin(&self) {
        self.0.lock().get_or_insert_with(Instant::now);
    }

    /// Records a reply from the store.
    pub(super) fn end(&self) {
        *self.0.lock() = None;
    }

    pub(super) fn time(&self) -> Option<Duration> {
        self.0.lock().map(|since| since.elapsed())
    }
}
