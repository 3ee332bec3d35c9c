//! Clocks that all processes of a machine share, including those in containers.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::sleep;

/// The clock of distlock's deadlines.
#[cfg(target_os = "linux")]
const DEADLINES: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const DEADLINES: ClockId = ClockId::Monotonic;

/// Returns the nanoseconds of `CLOCK_MONOTONIC`.
pub fn now() -> u64 {
    read(ClockId::Monotonic)
}

/// Returns the microseconds of the clock of distlock's deadlines.
pub fn uptime() -> u64 {
    read(DEADLINES) / 1000
}

/// Returns the nanoseconds of processor time that this process has used.
pub fn cpu() -> u64 {
    read(ClockId::ProcessCPUTime)
}

/// Converts a time to microseconds.
pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Sleeps until [`now`] is at least `instant`.
pub async fn sleep_until(instant: u64) {
    sleep(Duration::from_nanos(instant.saturating_sub(now()))).await;
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Neither is negative: these clocks start at zero.
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
