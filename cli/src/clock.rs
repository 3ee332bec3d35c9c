//! The clock that deadlines are kept on: it goes on while the machine is suspended, and all
//! processes of a machine share it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since the machine was booted.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    // Neither is negative: the clock starts at zero.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
