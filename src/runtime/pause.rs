//! Pauses of random length, so that not all do the same at once.

use std::{future::poll_fn, task::Poll, time::Duration};

use super::{
    clock::{Instant, sleep},
    mutex::Mutex,
    random,
};

/// The pauses of one who tries again and again: they grow from one to the next.
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

/// Lets work that many callers ask for be done at most once in an interval.
#[derive(Debug, Default)]
pub(crate) struct Throttle(Mutex<Option<Instant>>);

impl Throttle {
    /// Returns `true` if it has not done so within `interval`.
    pub(crate) fn is_due(&self, interval: Duration) -> bool {
        let mut last = self.0.lock();
        let due = last.is_none_or(|last| last.elapsed() >= interval);
        if due {
            *last = Some(Instant::now());
        }
        due
    }
}

/// The pause before retry number `attempt` (from 0): doubles from 20 ms to 1 s, with jitter so that
/// clients spread out.
pub(crate) fn backoff(attempt: u32) -> Duration {
    let full = Duration::from_millis(20 << attempt.min(6)).min(Duration::from_secs(1));
    full.mul_f64(0.5 + random::fraction() / 2.0)
}

/// A time between half and one and a half of this, so that not all do the same at once.
pub(crate) fn jittered(time: Duration) -> Duration {
    time.mul_f64(0.5 + random::fraction())
}

/// A factor: up to a quarter may be added to an interval, so that not all look at once.
pub(crate) fn late() -> f64 {
    1.0 + random::fraction() / 4.0
}

/// Gives others their turn, on any executor. Tokio's own, polled on a thread of tokio's, comes back
/// only when that thread is tokio's again; if it waits for this very future, never.
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
