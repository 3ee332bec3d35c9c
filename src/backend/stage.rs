//! Decides whether a task or thread that serves many callers has begun a request.

use std::sync::atomic::{AtomicU8, Ordering};

/// The state of a request. The task that serves it, or a caller whose time is up, decides it once.
#[derive(Debug, Default)]
pub(crate) struct Stage(AtomicU8);

const WAITS: u8 = 0;
const BEGUN: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Stage {
    /// Returns `true` if the request begins now. Its caller then knows that it may take effect.
    pub(crate) fn begin(&self) -> bool {
        self.become_(BEGUN)
    }

    /// Returns `true` if the request has not begun, and never will.
    pub(crate) fn give_up(&self) -> bool {
        self.become_(GIVEN_UP)
    }

    fn become_(&self, stage: u8) -> bool {
        self.0.compare_exchange(WAITS, stage, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
