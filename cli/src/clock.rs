//! The clock of the deadlines. It continues while the machine is suspended, and all processes of a
//! machine share it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the time since the machine was booted.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    // Neither part is negative, because the clock starts at zero.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
