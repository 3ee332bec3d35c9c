//! Requests that have to be sent separately, because their queue has other entries, or repeated,
//! because a lock blocked them.

use std::{collections::VecDeque, time::Duration};

use crate::runtime::{clock::Instant, jittered};

/// The shortest and longest pause before a repetition.
const SOONEST: Duration = Duration::from_millis(1);
const LATEST: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Later<T> {
    now: VecDeque<(T, Duration)>,
    again: Vec<(Instant, T, Duration)>,
    /// The last request was a repetition.
    retried: bool,
}

impl<T> Default for Later<T> {
    fn default() -> Self {
        Self { now: VecDeque::new(), again: Vec::new(), retried: false }
    }
}

impl<T> Later<T> {
    pub(super) fn now(&mut self, request: T) {
        self.now.push_back((request, Duration::ZERO));
    }

    /// Adds a request to be repeated, which has waited this long before.
    pub(super) fn again(&mut self, request: T, waited: Duration) {
        let pause = (waited * 2).clamp(SOONEST, LATEST);
        self.again.push((Instant::now() + jittered(pause), request, pause));
    }

    /// Returns when the next repetition is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.again.iter().map(|(due, ..)| *due).min()
    }

    pub(super) fn is_due(&self) -> bool {
        !self.now.is_empty() || self.due().is_some_and(|due| due <= Instant::now())
    }

    /// Returns the next request, and how long it had waited. `others_wait`: repetitions get only
    /// every other turn, because the server may need longer for one than until the next one is due.
    pub(super) fn next(&mut self, others_wait: bool) -> Option<(T, Duration)> {
        if let Some(next) = self.now.pop_front() {
            return Some(next);
        }
        if std::mem::take(&mut self.retried) && others_wait {
            return None;
        }
        let now = Instant::now();
        let at = self.again.iter().position(|(due, ..)| *due <= now)?;
        let (_, request, waited) = self.again.remove(at);
        self.retried = true;
        Some((request, waited))
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> {
        let now = self.now.drain(..).map(|(request, _)| request);
        now.chain(self.again.drain(..).map(|(_, request, _)| request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn retries_have_growing_pauses() {
        let mut later = Later::default();
        later.now("a");
        let (mut request, mut waited) = later.next(false).unwrap();
        let (mut waits, began) = (Vec::new(), tokio::time::Instant::now());
        for _ in 0..10 {
            later.again(request, waited);
            assert_eq!(later.next(false), None);
            tokio::time::sleep_until(later.due().unwrap()).await;
            assert!(later.is_due());
            (request, waited) = later.next(false).unwrap();
            waits.push(began.elapsed());
        }
        assert!(waits[3] < Duration::from_millis(40), "{waits:?}");
        assert!(waits[9] > Duration::from_millis(150), "{waits:?}");
        later.now("b");
        later.again(request, waited);
        assert_eq!(later.next(true), Some(("b", Duration::ZERO)));
        assert_eq!(later.drain().collect::<Vec<_>>(), ["a"]);
    }

    /// The server may be so far away or so busy that a due request comes after the other one.
    #[tokio::test(start_paused = true)]
    async fn retries_take_at_most_every_other_turn() {
        let mut later = Later::default();
        for request in ["a", "b", "c"] {
            later.again(request, Duration::ZERO);
        }
        tokio::time::sleep(LATEST * 2).await;
        let mut next = |others_wait| later.next(others_wait).map(|(request, _)| request);
        let turns = [true, true, true, false, true].map(&mut next);
        assert_eq!(turns, [Some("a"), None, Some("b"), Some("c"), None]);
        later.now("d");
        assert_eq!(later.next(true), Some(("d", Duration::ZERO)), "it has had no turn yet");
    }
}
