//! The block of numbers that this process draws from: see [`numbers`](super::numbers).

use std::cell::Cell;

/// The end of the numbers that this process may draw.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// The end that this process flushed last. It is `None` if the process has flushed none since
    /// it opened the file.
    flushed: Cell<Option<i64>>,
    /// The end that the current transaction reserves.
    reserved: Cell<Option<i64>>,
}

impl Block {
    pub(super) fn end(&self) -> Option<i64> {
        self.reserved.get().or(self.flushed.get())
    }

    pub(super) fn reserve(&self, end: i64) {
        self.reserved.set(Some(end));
    }

    /// Notes that the transaction that reserved the end was flushed.
    pub(super) fn confirm(&self) {
        self.flushed.set(self.end());
        self.reserved.set(None);
    }

    /// Notes that the transaction that reserved the end was rolled back.
    pub(super) fn forget(&self) {
        self.reserved.set(None);
    }
}
