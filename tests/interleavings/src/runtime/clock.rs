//! A clock that advances only when a scenario or a sleep advances it.

use std::{
    cell::Cell,
    ops::{Add, AddAssign, Sub},
    time::{Duration, SystemTime},
};

use super::{OnDrop, yield_now};

// All threads of an execution run on one thread of the machine.
std::thread_local! {
    static NOW: Cell<Duration> = const { Cell::new(Duration::from_secs(1_000)) };
    static STOPPED: Cell<bool> = const { Cell::new(false) };
}

pub(crate) fn now() -> Duration {
    NOW.get()
}

pub(crate) fn wall() -> SystemTime {
    SystemTime::UNIX_EPOCH + now()
}

/// Advances the clock.
pub(crate) fn pass(time: Duration) {
    NOW.set(now() + time);
}

pub(crate) fn is_stopped() -> bool {
    STOPPED.get()
}

/// Stops the clock until the value is dropped: no sleep ends, so that no timer can replace a lost
/// wake-up.
pub(crate) fn stop() -> OnDrop<impl Fn()> {
    STOPPED.set(true);
    OnDrop(|| STOPPED.set(false))
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

pub(crate) async fn sleep(time: Duration) {
    sleep_until(Instant(now().saturating_add(time))).await;
}

/// Other threads run before its end or after it.
pub(crate) async fn sleep_until(at: Instant) {
    if STOPPED.get() && at.0 > now() {
        std::future::pending::<()>().await;
    }
    yield_now().await;
    NOW.set(now().max(at.0));
}

/// The error of a timeout. It never occurs here: a lost wake-up would be mistaken for a timeout.
#[derive(Debug, thiserror::Error)]
#[error("late")]
pub(crate) struct Late;

pub(crate) async fn timeout<T>(_: Duration, work: impl Future<Output = T>) -> Result<T, Late> {
    Ok(work.await)
}

pub(crate) async fn timeout_at<T>(_: Instant, work: impl Future<Output = T>) -> Result<T, Late> {
    Ok(work.await)
}
