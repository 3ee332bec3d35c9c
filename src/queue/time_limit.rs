//! The end of the time for which a lock may be held.

use std::time::Duration;

use crate::runtime::clock::{self, sleep};

/// Returns at that time, by this machine's clock.
pub(super) async fn reached(until: Duration) {
    loop {
        let left = until.saturating_sub(clock::now());
        if left.is_zero() {
            return;
        }
        sleep(left).await;
    }
}
