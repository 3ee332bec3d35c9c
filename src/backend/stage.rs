//! Whether a request was begun by a task or a thread that serves many callers.

use std::sync::atomic::{AtomicU8, Ordering};

/// Decided once, between the one who serves and the caller whose time is up.
#[derive(Debug, Default)]
pub(crate) struct Stage(AtomicU8);

const WAITS: u8 = 0;
const BEGUN: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Stage {
    /// `true`: it is begun now, and its caller knows that it may be done.
    pub(crate) fn begin(&self) -> bool {
        self.become_(BEGUN)
    }

    /// `true`: it is not begun, and never will be.
    pub(crate) fn give_up(&self) -> bool {
        self.become_(GIVEN_UP)
    }

    fn become_(&self, stage: u8) -> bool {
        self.0.compare_exchange(WAITS, stage, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
