//! The end of the maximum hold time.

use std::time::Duration;

use crate::runtime::clock::{self, sleep};

/// Timers stop during suspend, so a longer sleep would miss that time has passed.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Returns at this time by the local clock.
pub(super) async fn reached(until: Duration) {
    loop {
        let left = until.saturating_sub(clock::now());
        if left.is_zero() {
            return;
        }
        sleep(left.min(LONGEST_SLEEP)).await;
    }
}
