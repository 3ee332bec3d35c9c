//! Pauses of random length, so that clients do not act at the same time.

use std::{future::poll_fn, task::Poll, time::Duration};

use super::{
    clock::{Instant, sleep},
    mutex::Mutex,
    random,
};

/// The growing pauses between retries.
#[derive(Debug, Default)]
pub(crate) struct Backoff(u32);

impl Backoff {
    pub(crate) async fn pause(&mut self) {
        sleep(self.next_pause()).await;
    }

    pub(crate) fn next_pause(&mut self) -> Duration {
        let pause = backoff(self.0);
        self.0 = self.0.saturating_add(1);
        pause
    }
}

/// Runs shared work at most once per interval.
#[derive(Debug, Default)]
pub(crate) struct Throttle(Mutex<Option<Instant>>);

impl Throttle {
    /// Returns `true` unless it has already done so within `interval`.
    pub(crate) fn is_due(&self, interval: Duration) -> bool {
        let mut last = self.0.lock();
        let due = last.is_none_or(|last| last.elapsed() >= interval);
        if due {
            *last = Some(Instant::now());
        }
        due
    }
}

/// Returns the pause before retry number `attempt`, counted from 0.
///
/// The pause doubles from 20 ms to 1 s. Its jitter keeps clients apart.
pub(crate) fn backoff(attempt: u32) -> Duration {
    let full = Duration::from_millis(20 << attempt.min(6)).min(Duration::from_secs(1));
    full.mul_f64(0.5 + random::fraction() / 2.0)
}

/// Returns a random time between 0.5 and 1.5 times `time`, to keep clients apart.
pub(crate) fn jittered(time: Duration) -> Duration {
    time.mul_f64(0.5 + random::fraction())
}

/// Returns a random factor from 1 to 1.25, to spread the rechecks of clients.
pub(crate) fn late() -> f64 {
    1.0 + random::fraction() / 4.0
}

/// Yields to other tasks, on any executor.
///
/// On a tokio thread, tokio's own `yield_now` resumes only when that thread polls tokio's tasks
/// again. If the thread waits for this very future, it never resumes.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_second() {
        let mut backoff = Backoff::default();
        for most in [20, 40, 80, 160, 320, 640, 1000, 1000] {
            let pause = backoff.next_pause().as_millis();
            assert!((most / 2..=most).contains(&pause), "{pause} of {most}");
        }
    }
}
