//! The seam to the machine's clocks: for deadlines, for timers, and the wall clock.

use std::time::{Duration, SystemTime};

pub(crate) use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

#[cfg(any(target_os = "android", target_os = "linux", target_vendor = "apple"))]
use rustix::time::{ClockId, clock_gettime};

/// A clock that continues during suspend.
#[cfg(any(target_os = "android", target_os = "linux"))]
const CLOCK: ClockId = ClockId::Boottime;

/// A clock that continues during suspend, unlike the one of the same name on Linux.
#[cfg(target_vendor = "apple")]
const CLOCK: ClockId = ClockId::Monotonic;

/// Returns the time since a fixed point, including the time in suspend.
///
/// `std::time::Instant` is `CLOCK_MONOTONIC` on Linux and `CLOCK_UPTIME_RAW` on macOS. Both stop
/// during suspend, so a holder that wakes up would believe that its lease is still young
/// (<https://github.com/rust-lang/rust/issues/87906>). `CLOCK_BOOTTIME` continues, and so does
/// `CLOCK_MONOTONIC` on macOS. No clock of a virtual machine counts the time while the hypervisor
/// has stopped it.
#[cfg(any(target_os = "android", target_os = "linux", target_vendor = "apple"))]
pub(crate) fn now() -> Duration {
    let time = clock_gettime(CLOCK);
    // Both fields are non-negative, because the clock starts at zero at boot.
    let now = Duration::new(time.tv_sec as u64, time.tv_nsec as u32);
    #[cfg(all(test, target_os = "linux"))]
    let now = tests::shown(now);
    now
}

/// Returns the time of the standard monotonic clock.
///
/// Whether that includes the time in suspend depends on the platform.
#[cfg(not(any(target_os = "android", target_os = "linux", target_vendor = "apple")))]
pub(crate) fn now() -> Duration {
    use std::{sync::OnceLock, time};
    static START: OnceLock<time::Instant> = OnceLock::new();
    START.get_or_init(time::Instant::now).elapsed()
}

/// Returns the wall-clock time, which decides only when periodic work is due.
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
