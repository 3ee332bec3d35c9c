//! One who waits for what happens to a key, or in a queue.

use super::{line::Line, looks::What, watches::Waiting};
use crate::backend::error::Result;

/// Takes the watch back when it is dropped.
pub(super) struct Registered {
    line: Line,
    waiting: Waiting,
}

impl Registered {
    pub(super) fn new(line: &Line, what: What) -> Self {
        Self { line: line.clone(), waiting: line.watches.wait(what) }
    }

    pub(super) async fn news(&mut self) -> Result<()> {
        self.waiting.news().await
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.line.watches.leave(&self.waiting);
    }
}
