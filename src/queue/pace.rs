//! What keeps one that is woken for nothing from spinning.

use std::time::Duration;

use crate::runtime::{
    backoff,
    clock::{Instant, sleep},
};

/// After so long without a wake-up, one that was for nothing is the first again.
const CALM: Duration = Duration::from_secs(1);

/// Counts wake-ups that were for nothing.
#[derive(Default)]
pub(crate) struct Pace {
    idle: u32,
}

impl Pace {
    /// It was woken for nothing, and had begun to wait then. Should the store go on like that, it
    /// pauses; the first time it does not.
    pub(crate) async fn idle(&mut self, began: Instant) {
        self.idle = if began.elapsed() > CALM { 0 } else { self.idle + 1 };
        if self.idle > 1 {
            sleep(backoff(self.idle - 2)).await;
        }
    }
}
