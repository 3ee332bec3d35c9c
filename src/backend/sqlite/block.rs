//! The block of numbers that this process draws from: see [`numbers`](super::numbers).

use std::cell::Cell;

/// Up to which number this process may draw.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// The end that it has flushed last; `None`: none since it opened the file.
    flushed: Cell<Option<i64>>,
    /// The end that it reserves by the transaction under way.
    reserved: Cell<Option<i64>>,
}

impl Block {
    pub(super) fn end(&self) -> Option<i64> {
        self.reserved.get().or(self.flushed.get())
    }

    pub(super) fn reserve(&self, end: i64) {
        self.reserved.set(Some(end));
    }

    /// The transaction that reserved it was flushed.
    pub(super) fn confirm(&self) {
        self.flushed.set(self.end());
        self.reserved.set(None);
    }

    /// The transaction that reserved it was undone.
    pub(super) fn forget(&self) {
        self.reserved.set(None);
    }
}
