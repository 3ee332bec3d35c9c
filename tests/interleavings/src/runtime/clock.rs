//! A clock that advances only when a scenario or a sleep advances it.

use std::{
    cell::Cell,
    ops::Add,
    time::{Duration, SystemTime},
};

use super::yield_now;

// All threads of an execution run on one thread of the machine.
std::thread_local! {
    static NOW: Cell<Duration> = const { Cell::new(Duration::from_secs(1_000)) };
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(Duration);

impl Instant {
    pub(crate) fn now() -> Self {
        Self(now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        now().saturating_sub(self.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0 + time)
    }
}

pub(crate) async fn sleep(time: Duration) {
    sleep_until(Instant::now() + time).await;
}

/// Other threads run before its end or after it.
pub(crate) async fn sleep_until(at: Instant) {
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
