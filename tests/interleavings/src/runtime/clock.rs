//! A clock that goes on when a scenario says so, and when somebody sleeps: by as much as that.

use std::{
    cell::Cell,
    ops::Add,
    time::{Duration, SystemTime},
};

use super::yield_now;

// All threads of an execution are one thread of the machine's.
std::thread_local! {
    static NOW: Cell<Duration> = const { Cell::new(Duration::from_secs(1_000)) };
}

pub(crate) fn now() -> Duration {
    NOW.get()
}

pub(crate) fn wall() -> SystemTime {
    SystemTime::UNIX_EPOCH + now()
}

/// So much time passes.
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

/// Whatever others do comes before its end or after it.
pub(crate) async fn sleep_until(at: Instant) {
    yield_now().await;
    NOW.set(now().max(at.0));
}

/// What is waited for too long. It never is here: what is lost would be taken for late.
#[derive(Debug, thiserror::Error)]
#[error("late")]
pub(crate) struct Late;

pub(crate) async fn timeout<T>(_: Duration, work: impl Future<Output = T>) -> Result<T, Late> {
    Ok(work.await)
}

pub(crate) async fn timeout_at<T>(_: Instant, work: impl Future<Output = T>) -> Result<T, Late> {
    Ok(work.await)
}
