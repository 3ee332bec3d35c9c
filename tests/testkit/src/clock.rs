//! Clocks that all processes of a machine share, those in its containers among them.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::sleep;

/// The one that distlock keeps its deadlines on.
#[cfg(target_os = "linux")]
const DEADLINES: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const DEADLINES: ClockId = ClockId::Monotonic;

/// Nanoseconds on `CLOCK_MONOTONIC`.
pub fn now() -> u64 {
    read(ClockId::Monotonic)
}

/// Microseconds on the clock that distlock keeps its deadlines on.
pub fn uptime() -> u64 {
    read(DEADLINES) / 1000
}

/// Nanoseconds that this process has kept a processor busy.
pub fn cpu() -> u64 {
    read(ClockId::ProcessCPUTime)
}

/// A time in microseconds.
pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Returns when [`now`] says this, or later.
pub async fn sleep_until(instant: u64) {
    sleep(Duration::from_nanos(instant.saturating_sub(now()))).await;
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Neither is negative: these clocks start at zero.
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
