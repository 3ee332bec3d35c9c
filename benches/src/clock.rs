//! Clocks that all processes of a machine share.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::sleep;

/// Nanoseconds since some fixed point, the same in every process.
pub(crate) fn now() -> u64 {
    read(ClockId::Monotonic)
}

/// Nanoseconds that this process has kept a processor busy.
pub(crate) fn cpu() -> u64 {
    read(ClockId::ProcessCPUTime)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Both fields are non-negative: these clocks start at zero.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub(crate) async fn sleep_until(instant: u64) {
    sleep(Duration::from_nanos(instant.saturating_sub(now()))).await;
}
