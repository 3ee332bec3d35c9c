//! The seam to the machine's clocks: the one that deadlines are kept on, the one of timers, and the
//! one on the wall.

use std::time::{Duration, SystemTime};

pub(crate) use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

#[cfg(any(target_os = "android", target_os = "linux", target_vendor = "apple"))]
use rustix::time::{ClockId, clock_gettime};

/// Goes on while the machine sleeps.
#[cfg(any(target_os = "android", target_os = "linux"))]
const CLOCK: ClockId = ClockId::Boottime;

/// Goes on while the machine sleeps, unlike that of the same name on Linux.
#[cfg(target_vendor = "apple")]
const CLOCK: ClockId = ClockId::Monotonic;

/// Time since some fixed point, counting the time the machine was suspended.
///
/// `std::time::Instant` is `CLOCK_MONOTONIC` on Linux and `CLOCK_UPTIME_RAW` on macOS. Both stand
/// still while a machine sleeps, so a holder that wakes from suspend would believe its lease is
/// young (<https://github.com/rust-lang/rust/issues/87906>). `CLOCK_BOOTTIME` goes on, and so does
/// `CLOCK_MONOTONIC` on macOS. No clock of a virtual machine counts the time for which the
/// hypervisor has stopped it.
#[cfg(any(target_os = "android", target_os = "linux", target_vendor = "apple"))]
pub(crate) fn now() -> Duration {
    let time = clock_gettime(CLOCK);
    // Both fields are non-negative: the clock starts at zero at boot.
    let now = Duration::new(time.tv_sec as u64, time.tv_nsec as u32);
    #[cfg(all(test, target_os = "linux"))]
    let now = tests::shown(now);
    now
}

/// Elsewhere the standard monotonic clock has to do; whether it counts suspend is the platform's
/// choice.
#[cfg(not(any(target_os = "android", target_os = "linux", target_vendor = "apple")))]
pub(crate) fn now() -> Duration {
    use std::{sync::OnceLock, time};
    static START: OnceLock<time::Instant> = OnceLock::new();
    START.get_or_init(time::Instant::now).elapsed()
}

/// What a clock on the wall shows. Nothing is decided by it but when periodic work is due.
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
