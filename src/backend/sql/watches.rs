//! Who waits here for what happens to which key, where the server tells it.

use std::{collections::HashMap, time::Duration};

use tokio::sync::Notify;

use super::{
    key::dir_of,
    watched::{Waiting, Watched, WatchedEntry, What},
};
use crate::runtime::{clock::Instant, jittered, mutex::Mutex};

/// How much later than a session ends, by the server's word, it is looked for.
const AFTER: Duration = Duration::from_millis(20);

/// How many sessions a renewal asks after, so that it stays small.
pub(crate) const ASKED_ON_THE_WAY: usize = 100;

/// What those who wait for a key, or for a queue as a whole, are to be told.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    state: Mutex<State>,
    /// The next look is due at another time.
    pub(crate) changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// With whose end something happens.
    watched: Watched<Vec<i64>>,
    /// When the sessions that are ahead of somebody end unless they are renewed.
    ends: HashMap<i64, Instant>,
}

impl Watches {
    /// Begins to listen, before the server is asked to speak.
    pub(crate) fn wait(&self, what: What) -> Waiting {
        self.state.lock().watched.wait(what)
    }

    /// Takes note of how long the sessions that one waits for will live, if nothing is heard of
    /// them: the server does not tell of a session's end before somebody puts it away.
    pub(crate) fn note(&self, what: &What, sessions: impl IntoIterator<Item = (i64, Duration)>) {
        let (mut state, now) = (self.state.lock(), Instant::now());
        let sessions: Vec<_> = sessions.into_iter().collect();
        if let Some(watched_entry) = state.watched.0.get_mut(what) {
            watched_entry.known = sessions.iter().map(|(session, _)| *session).collect();
            for (session, left) in sessions {
                state.ends.insert(session, now + left + jittered(AFTER));
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// One less waits. If it was the last one, the server is told so by `untell`: before anybody
    /// can ask it for the same again.
    pub(crate) fn leave(&self, waiting: &Waiting, untell: impl FnOnce()) {
        let mut state = self.state.lock();
        if state.watched.leave(waiting) {
            untell();
        }
    }

    /// Something has happened, in the server's words: to a key and its number, or in a queue, after
    /// whose slash nothing stands, with the number 0.
    pub(crate) fn notify_payload(&self, payload: &str) {
        let (key, number) = payload.rsplit_once(' ').unwrap_or((payload, ""));
        self.notify(dir_of(key), number.parse().unwrap_or(0));
    }

    /// The same of an entry with this number, or with 0 of a queue.
    pub(crate) fn notify(&self, dir: &str, number: u64) {
        let watched = self.state.lock().watched.take(dir, number);
        watched.into_iter().for_each(WatchedEntry::notify);
    }

    /// Whether anything is waited for that is another session's to end.
    #[cfg(feature = "postgres")]
    pub(crate) fn waits_for_others(&self) -> bool {
        let state = self.state.lock();
        state.watched.0.iter().any(|((_, number), entry)| *number == 0 || !entry.known.is_empty())
    }

    /// What is watched, for a session that asks which of it is over.
    #[cfg(feature = "postgres")]
    pub(crate) fn watched(&self) -> Vec<What> {
        self.state.lock().watched.0.keys().cloned().collect()
    }

    /// The connection is gone.
    pub(crate) fn lose(&self) {
        let lost = std::mem::take(&mut *self.state.lock());
        lost.watched.lose();
    }

    /// Whether something waits here.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.state.lock().watched.0.is_empty()
    }

    /// When to look whether sessions have ended.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.state.lock().ends.values().min().copied()
    }

    /// The sessions that are to be looked for, which are not due again before they are noted. Those
    /// that nobody waits for any more are forgotten.
    pub(crate) fn take_due(&self) -> Vec<i64> {
        let (mut state, now) = (self.state.lock(), Instant::now());
        let State { watched, ends } = &mut *state;
        let due = ends.iter().filter(|(_, at)| **at <= now).map(|(session, _)| *session);
        let mut due: Vec<_> = due.collect();
        for session in &due {
            ends.remove(session);
        }
        due.retain(|session| {
            watched.0.values().any(|watched_entry| watched_entry.known.contains(session))
        });
        due
    }

    /// The sessions that are due next, of those that somebody waits for: no more than so many.
    pub(crate) fn next_due(&self, most: usize) -> Vec<i64> {
        let state = self.state.lock();
        let waited_for: std::collections::HashSet<_> = state
            .watched
            .0
            .values()
            .flat_map(|watched_entry| watched_entry.known.iter().copied())
            .collect();
        let ends = state.ends.iter().filter(|(session, _)| waited_for.contains(session));
        let mut next: Vec<_> = ends.map(|(session, at)| (*at, *session)).collect();
        next.sort_unstable();
        next.into_iter().take(most).map(|(_, session)| session).collect()
    }

    /// They have so long to live.
    pub(crate) fn renew(&self, sessions: impl IntoIterator<Item = (i64, Duration)>) {
        let (mut state, now) = (self.state.lock(), Instant::now());
        for (session, left) in sessions {
            state.ends.insert(session, now + left + jittered(AFTER));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(watches: &Watches, dir: &str, number: u64) -> Waiting {
        watches.wait((dir.into(), number))
    }

    fn is_last(watches: &Watches, waiting: &Waiting) -> bool {
        let mut last = false;
        watches.leave(waiting, || last = true);
        last
    }

    #[tokio::test]
    async fn waiters_are_notified_of_their_own_key() {
        let watches = Watches::default();
        let [mut one, mut again, mut queue, mut other] =
            [("/a", 1), ("/a", 1), ("/a", 0), ("/b", 1)]
                .map(|(dir, number)| waits(&watches, dir, number));
        watches.notify_payload("/a/ 0");
        queue.changed().await.unwrap();
        let mut queue = waits(&watches, "/a", 0);
        watches.notify_payload("/a/1f-x.r 1");
        for waiting in [&mut one, &mut again, &mut queue] {
            waiting.changed().await.unwrap();
        }
        watches.lose();
        other.changed().await.unwrap_err();
    }

    #[test]
    fn the_last_one_to_leave_is_known() {
        let watches = Watches::default();
        let [one, again] = [waits(&watches, "/a", 1), waits(&watches, "/a", 1)];
        assert!(!is_last(&watches, &one));
        drop(one);
        watches.notify_payload("/a/1f-x 1");
        // Another one since, which the first has nothing to do with.
        let later = waits(&watches, "/a", 1);
        assert!(!is_last(&watches, &again));
        assert!(is_last(&watches, &later));
        assert!(!is_last(&watches, &later));
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_are_looked_for_when_they_are_due() {
        let watches = Watches::default();
        assert_eq!(watches.due(), None);
        let waiting = waits(&watches, "/a", 1);
        let second = Duration::from_secs(1);
        watches.note(&("/a".into(), 1), [(0x1f, second)]);
        let due = watches.due().unwrap();
        assert!(due >= Instant::now() + second);
        assert!(watches.take_due().is_empty());
        tokio::time::sleep_until(due).await;
        assert_eq!(watches.take_due(), [0x1f]);
        assert_eq!(watches.due(), None);
        watches.renew([(0x1f, second)]);
        assert!(is_last(&watches, &waiting));
        tokio::time::sleep(second * 2).await;
        assert!(watches.take_due().is_empty(), "nobody waits for it");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_known_of_a_session_in_time_is_not_asked_again() {
        let watches = Watches::default();
        let waiting = [waits(&watches, "/a", 1), waits(&watches, "/b", 1)];
        let second = Duration::from_secs(1);
        watches.note(&("/a".into(), 1), [(0xa, 3 * second)]);
        watches.note(&("/b".into(), 1), [(0xb, 2 * second)]);
        assert_eq!(watches.next_due(1), [0xb], "the first one");
        assert_eq!(watches.next_due(9), [0xb, 0xa]);
        for _ in 0..10 {
            tokio::time::sleep(second).await;
            watches.renew(watches.next_due(9).into_iter().map(|session| (session, 2 * second)));
            assert!(watches.take_due().is_empty());
        }
        assert!(is_last(&watches, &waiting[1]));
        assert_eq!(watches.next_due(9), [0xa]);
    }
}
