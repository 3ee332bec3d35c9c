//! One who waits for what happens to a key, or in a queue.

use super::{
    line::Line,
    statements,
    watches::{Waiting, What},
};
use crate::backend::error::Result;

/// Takes the watch back if it is dropped, and nobody else here has it.
pub(super) struct Registered {
    line: Line,
    waiting: Waiting,
    pub(super) what: What,
    /// The server knows of it.
    pub(super) known: bool,
}

impl Registered {
    pub(super) fn new(line: &Line, dir: &str, number: u64) -> Self {
        let what: What = (dir.into(), number);
        let waiting = line.watches.wait(what.clone());
        Self { line: line.clone(), waiting, what, known: true }
    }

    pub(super) async fn news(&mut self) -> Result<()> {
        self.waiting.news().await
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let (line, (dir, number)) = (&self.line, &self.what);
        line.watches.leave(&self.waiting, || {
            if self.known {
                line.order(statements::unwatch(line.session, dir, *number));
            }
        });
    }
}
