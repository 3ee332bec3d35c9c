//! The simulation's clock, and its timers.

use std::{
    fmt,
    future::Future,
    ops::{Add, AddAssign, Sub},
    pin::{Pin, pin},
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use crate::{events::EventId, scheduler};

pub(crate) fn now() -> Duration {
    scheduler::now()
}

pub(crate) fn wall() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000) + now()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(Duration);

impl Instant {
    pub(crate) fn now() -> Self {
        Self(now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        now().saturating_sub(self.0)
    }

    pub(crate) fn checked_add(self, time: Duration) -> Option<Self> {
        self.0.checked_add(time).map(Self)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0 + time)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, time: Duration) {
        self.0 += time;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, other: Self) -> Duration {
        self.0.saturating_sub(other.0)
    }
}

/// Completes at its time or later, as timers do.
#[derive(Debug)]
pub(crate) struct Sleep {
    at: Duration,
    timer: Option<EventId>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if now() >= self.at {
            return Poll::Ready(());
        }
        self.timer = Some(scheduler::set_timer(self.timer, self.at, context.waker()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            scheduler::unset_timer(timer);
        }
    }
}

pub(crate) fn sleep(time: Duration) -> Sleep {
    sleep_until(Instant::now().checked_add(time).unwrap_or(Instant(Duration::MAX)))
}

pub(crate) fn sleep_until(at: Instant) -> Sleep {
    Sleep { at: at.0, timer: None }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline has elapsed")
    }
}

impl std::error::Error for Elapsed {}

pub(crate) async fn timeout<T>(
    time: Duration,
    future: impl Future<Output = T>,
) -> Result<T, Elapsed> {
    until(sleep(time), future).await
}

pub(crate) async fn timeout_at<T>(
    at: Instant,
    future: impl Future<Output = T>,
) -> Result<T, Elapsed> {
    until(sleep_until(at), future).await
}

async fn until<T>(late: Sleep, future: impl Future<Output = T>) -> Result<T, Elapsed> {
    let mut future = pin!(future);
    tokio::select! {
        biased;
        done = &mut future => Ok(done),
        () = late => Err(Elapsed),
    }
}
