//! This client's watches, and when to poll for them, because this store cannot notify.

use std::{collections::HashMap, time::Duration};

use tokio::sync::Notify;

use super::looks::Seen;
use crate::{
    backend::sql::{
        key::session_of,
        watched::{Waiting, Watched, WatchedEntry, What},
    },
    runtime::{clock::Instant, jittered, late, mutex::Mutex},
};

/// How long after a session's expected expiry the client polls.
const AFTER: Duration = Duration::from_millis(20);

/// The first and the longest pause between polls of the next waiter in line.
const SOONEST: Duration = Duration::from_millis(2);
const LATEST: Duration = Duration::from_millis(250);
/// The additional pause for each entry of a queue that is watched as a whole.
const EACH: Duration = Duration::from_micros(100);
/// The longest pause, at any position in the queue.
const FARTHEST: Duration = Duration::from_secs(20);

/// How often a holder checks its own entry. It notices a missing one within a second.
const OWN: Duration = Duration::from_millis(800);

/// The number of watches that one poll reads. A poll of all of tens of thousands would exceed the
/// server's `max_allowed_packet`, or take longer than a request may.
const TOGETHER: usize = 1_000;

/// The watches of one session.
#[derive(Debug)]
pub(super) struct Watches {
    session: i64,
    state: Mutex<State>,
    /// The next poll is due at another time.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// `None`: the first poll is running.
    watched: Watched<Option<Look>>,
    /// No poll is due before.
    soonest: Option<Instant>,
}

/// The result of the last poll.
#[derive(Clone, Debug)]
struct Look {
    seen: Seen,
    /// The entry belongs to this session.
    own: bool,
    /// Since when the number of entries ahead is unchanged.
    since: Instant,
    due: Instant,
    /// When a relevant session may expire.
    end: Option<Instant>,
    /// How much earlier this poll may run together with others.
    early: Duration,
}

/// What to poll.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) what: Vec<What>,
    /// Own entries, which one request reads together.
    pub(super) own: Vec<What>,
    /// A relevant session may have expired.
    pub(super) sweeps: bool,
}

impl Due {
    pub(super) fn is_empty(&self) -> bool {
        self.what.is_empty() && self.own.is_empty()
    }
}

impl Look {
    fn new(what: &What, own: bool, seen: Seen, before: Option<&Self>) -> Self {
        let now = Instant::now();
        let before = before.filter(|before| before.seen.ahead == seen.ahead);
        let since = before.map_or(now, |before| before.since);
        let pause = pause(what.1 == 0, own, now - since, seen.ahead);
        let pause = if own { pause } else { pause.mul_f64(late()) };
        let left = seen.left.map(|left| left + jittered(AFTER));
        let pause = left.map_or(pause, |left| pause.min(left));
        let end = left.map(|left| now + left);
        Self { seen, own, since, due: now + pause, end, early: pause / 2 }
    }
}

/// Returns the pause before the next poll of a waiter, by the number of entries ahead of its
/// predecessor and how long that number is unchanged.
///
/// A lock that was held for long is likely to be held for longer. The waiters ahead also have to
/// poll, each before the next one is granted the lock. A waiter therefore polls less often, in
/// proportion to the number of waiters ahead.
fn pause(queue: bool, own: bool, age: Duration, ahead: u64) -> Duration {
    let next = (age / 4).clamp(SOONEST, LATEST);
    // Reading a long queue takes long.
    let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
    match (own, queue) {
        (true, _) => OWN,
        (_, true) => next + EACH.saturating_mul(ahead),
        _ => next.saturating_mul(ahead.saturating_add(1)).min(FARTHEST.mul_f64(0.8)),
    }
}

impl State {
    /// Returns the result of the last poll of this watch.
    fn get(&self, what: &What) -> Option<&Look> {
        self.watched.0.get(what)?.known.as_ref()
    }

    fn set(&mut self, what: &What, look: Look) {
        if let Some(watched_entry) = self.watched.0.get_mut(what) {
            self.soonest = Some(self.soonest.map_or(look.due, |soonest| soonest.min(look.due)));
            watched_entry.known = Some(look);
        }
    }
}

impl Watches {
    pub(super) fn new(session: i64) -> Self {
        Self { session, state: Mutex::default(), changed: Notify::new() }
    }

    /// Registers a waiter before the request is sent.
    pub(super) fn wait(&self, what: What) -> Waiting {
        self.state.lock().watched.wait(what)
    }

    /// Records what a new waiter has read first.
    pub(super) fn note(&self, what: &What, seen: Seen) {
        let own = self.is_own(&seen);
        let mut state = self.state.lock();
        let before = state.get(what);
        let mut changed = None;
        // If another waiter has read something else, one of the two waits for a change that has
        // already happened. Which one is unknown: replies may be noted in any order.
        if before.is_some_and(|before| before.seen.is != seen.is) {
            changed = state.watched.0.remove(what);
        } else {
            let look = Look::new(what, own, seen, before);
            state.set(what, look);
        }
        drop(state);
        match changed {
            Some(changed) => changed.notify(),
            None => self.changed.notify_one(),
        }
    }

    fn is_own(&self, seen: &Seen) -> bool {
        session_of(&seen.is) == Some(self.session)
    }

    /// Removes a waiter.
    pub(super) fn leave(&self, waiting: &Waiting) {
        self.state.lock().watched.leave(waiting);
    }

    /// Wakes the waiters for an entry or a queue that has changed.
    pub(super) fn notify(&self, dir: &str, number: u64) {
        let watched = self.state.lock().watched.take(dir, number);
        watched.into_iter().for_each(WatchedEntry::notify);
    }

    /// Notifies all waiters that the connection was lost.
    pub(super) fn lose(&self) {
        let lost = std::mem::take(&mut *self.state.lock());
        lost.watched.lose();
    }

    /// Returns when the next poll is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.state.lock().soonest
    }

    /// Takes the watches that are due now or soon.
    pub(super) fn take_due(&self) -> Due {
        let (mut state, now) = (self.state.lock(), Instant::now());
        let mut due = Due::default();
        if state.soonest.is_none_or(|soonest| soonest > now) {
            return due;
        }
        let looks = state.watched.0.iter();
        let looks: Vec<_> = looks
            .filter_map(|(what, watched_entry)| Some((what.clone(), watched_entry.known.clone()?)))
            .collect();
        state.soonest = looks.iter().map(|(_, look)| look.due).min();
        // The waiters may have left.
        if state.soonest.is_none_or(|soonest| soonest > now) {
            return due;
        }
        // One request reads all own entries, so all of them can be read now.
        let own = looks.iter().any(|(_, look)| look.own && look.due <= now);
        let mut others = Vec::new();
        for (what, look) in looks {
            match look.own {
                true if own => due.own.push(what),
                false if look.due <= now + look.early => others.push((what, look)),
                _ => {}
            }
        }
        // The watches that have been due longest come first, so that each gets its turn.
        others.sort_unstable_by_key(|(_, look)| look.due);
        for (what, look) in others.into_iter().take(TOGETHER) {
            due.sweeps |= look.end.is_some_and(|end| end <= now);
            due.what.push(what);
        }
        due
    }

    /// Records the results of a poll. A watched entry without a result is absent.
    pub(super) fn saw(&self, looked: &[What], shown: Vec<(What, Seen)>) {
        let mut shown: HashMap<_, _> = shown.into_iter().collect();
        let (mut state, mut changed) = (self.state.lock(), Vec::new());
        for what in looked {
            let Some(before) = state.get(what) else { continue };
            match shown.remove(what) {
                Some(seen) if seen.is == before.seen.is => {
                    let look = Look::new(what, before.own, seen, Some(before));
                    state.set(what, look);
                }
                _ => changed.extend(state.watched.0.remove(what)),
            }
        }
        state.soonest = state
            .watched
            .0
            .values()
            .filter_map(|watched_entry| Some(watched_entry.known.as_ref()?.due))
            .min();
        drop(state);
        changed.into_iter().for_each(WatchedEntry::notify);
    }

    /// Records the results for own entries, of which only the keys were read.
    pub(super) fn saw_own(&self, looked: &[What], shown: Vec<(What, String)>) {
        let seen = |is| Seen { is, left: None, ahead: 0 };
        self.saw(looked, shown.into_iter().map(|(what, is)| (what, seen(is))).collect());
    }

    /// Makes these due soon again, because their poll has failed.
    pub(super) fn missed(&self, looked: &[What]) {
        let (mut state, due) = (self.state.lock(), Instant::now() + jittered(LATEST));
        for what in looked {
            let watched_entry = state.watched.0.get_mut(what);
            if let Some(look) = watched_entry.and_then(|entry| entry.known.as_mut()) {
                look.due = due;
            }
        }
        state.soonest = Some(due);
    }
}

#[cfg(test)]
mod tests {
    use std::{slice, sync::Arc};

    use super::*;
    use crate::backend::mysql::looks::FAR;

    fn waits(watches: &Watches, dir: &str, number: u64) -> Waiting {
        watches.wait((dir.into(), number))
    }

    fn seen(is: &str, ahead: u64) -> Seen {
        Seen { is: is.into(), left: None, ahead }
    }

    #[tokio::test]
    async fn waiters_are_notified_of_their_own_key() {
        let watches = Watches::new(1);
        let [mut one, mut again, mut queue, mut other] =
            [("/a", 1), ("/a", 1), ("/a", 0), ("/b", 1)]
                .map(|(dir, number)| waits(&watches, dir, number));
        watches.notify("/a", 0);
        queue.changed().await.unwrap();
        let mut queue = waits(&watches, "/a", 0);
        watches.notify("/a", 1);
        for waiting in [&mut one, &mut again, &mut queue] {
            waiting.changed().await.unwrap();
        }
        watches.lose();
        other.changed().await.unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn deleted_and_replaced_keys_notify_waiters() {
        let watches = Watches::new(1);
        let mut waiting = [1, 2, 3].map(|number| waits(&watches, "/a", number));
        let what = [1, 2, 3].map(|number| (Arc::<str>::from("/a"), number));
        for what in &what {
            watches.note(what, seen("/a/2-x", 0));
        }
        tokio::time::sleep_until(watches.due().unwrap()).await;
        tokio::time::sleep(SOONEST).await;
        assert_eq!(watches.take_due().what.len(), 3);
        let shown = [(&what[0], "/a/2-x"), (&what[1], "/a/2-x.r")];
        let shown = shown.map(|(what, is)| (what.clone(), seen(is, 0)));
        watches.saw(&what, shown.into());
        for waiting in &mut waiting[1..] {
            waiting.changed().await.unwrap();
        }
        assert!(waiting[0].notification.has_changed().is_ok_and(|changed| !changed));
        assert!(watches.due().is_some(), "it is looked at again");
        watches.leave(&waiting[0]);
        tokio::time::sleep_until(watches.due().unwrap()).await;
        assert!(watches.take_due().is_empty());
        assert_eq!(watches.due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn predecessor_is_looked_at_again_and_again() {
        let watches = Watches::new(1);
        let waiting = waits(&watches, "/a", 1);
        let what = (Arc::<str>::from("/a"), 1);
        watches.note(&what, seen("/a/2-x", 0));
        for _ in 0..100 {
            let pause = watches.due().expect("a look is due") - Instant::now();
            // The pause of the next waiter in line, and the spread of pauses.
            assert!(pause <= LATEST.mul_f64(1.25) + SOONEST, "{pause:?}");
            tokio::time::sleep(pause + SOONEST).await;
            assert_eq!(watches.take_due().what, slice::from_ref(&what));
            watches.saw(slice::from_ref(&what), [(what.clone(), seen("/a/2-x", 0))].into());
        }
        watches.leave(&waiting);
    }

    /// The next poll reads the watches that a poll has left out.
    #[tokio::test(start_paused = true)]
    async fn one_poll_reads_a_limited_number_of_watches() {
        let watches = Watches::new(1);
        let what = |at: usize| (Arc::<str>::from(format!("/{at}")), 1);
        let what: Vec<What> = (0..TOGETHER + 5).map(what).collect();
        let waiting: Vec<_> = what.iter().map(|what| watches.wait(what.clone())).collect();
        what.iter().for_each(|what| watches.note(what, seen("/a/2-x", 0)));
        tokio::time::sleep(LATEST).await;
        let first = watches.take_due().what;
        assert_eq!(first.len(), TOGETHER);
        let shown = first.iter().map(|what| (what.clone(), seen("/a/2-x", 0)));
        watches.saw(&first, shown.collect());
        let second = watches.take_due().what;
        assert_eq!(second.len(), 5);
        assert!(second.iter().all(|what| !first.contains(what)));
        waiting.iter().for_each(|waiting| watches.leave(waiting));
    }

    #[test]
    fn poll_interval_grows_with_time_and_position() {
        let pause = |age, ahead| pause(false, false, Duration::from_millis(age), ahead);
        assert_eq!(
            [pause(0, 0), pause(200, 0), pause(99_999, 0)].map(|pause| pause.as_millis()),
            [2, 50, 250]
        );
        assert_eq!([pause(0, 9), pause(200, 1)].map(|pause| pause.as_millis()), [20, 100]);
        assert_eq!(pause(99_999, FAR), FARTHEST.mul_f64(0.8));
        // Including the random part, the pause is at most 20 s.
        assert!(pause(99_999, u64::MAX).mul_f64(1.25) <= FARTHEST);
    }
}
