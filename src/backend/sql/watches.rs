//! This client's waiters and what they watch, on stores that notify.

use std::{collections::HashMap, time::Duration};

use tokio::sync::Notify;

use super::{
    key::dir_of,
    watched::{Waiting, Watched, WatchedEntry, What},
};
use crate::runtime::{clock::Instant, jittered, mutex::Mutex};

/// How long after a session's expected expiry the client queries it.
const AFTER: Duration = Duration::from_millis(20);

/// The number of sessions that a renewal queries on the way, so that it stays small.
pub(crate) const ASKED_ON_THE_WAY: usize = 100;

/// The watches of one session.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    state: Mutex<State>,
    /// The next query is due at another time.
    pub(crate) changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The sessions whose end changes each watched entry.
    watched: Watched<Vec<i64>>,
    /// When the sessions ahead of this client's waiters expire unless they are renewed.
    ends: HashMap<i64, Instant>,
}

impl Watches {
    /// Registers a waiter before the request is sent.
    pub(crate) fn wait(&self, what: What) -> Waiting {
        self.state.lock().watched.wait(what)
    }

    /// Records how long the sessions ahead of a waiter have left. The server does not notify of an
    /// expired session before a client removes it.
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

    /// Removes a waiter. If it was the last one, `untell` ends the watch on the server before
    /// another waiter can begin the same watch.
    pub(crate) fn leave(&self, waiting: &Waiting, untell: impl FnOnce()) {
        let mut state = self.state.lock();
        if state.watched.leave(waiting) {
            untell();
        }
    }

    /// Handles a notification: a key and its number, or a queue's directory with its slash and the
    /// number 0.
    pub(crate) fn notify_payload(&self, payload: &str) {
        let (key, number) = payload.rsplit_once(' ').unwrap_or((payload, ""));
        self.notify(dir_of(key), number.parse().unwrap_or(0));
    }

    /// Notifies the waiters of the entry with this number, or of the whole queue with 0.
    pub(crate) fn notify(&self, dir: &str, number: u64) {
        let watched = self.state.lock().watched.take(dir, number);
        watched.into_iter().for_each(WatchedEntry::notify);
    }

    /// Returns `true` if a watch depends on another session.
    #[cfg(feature = "postgres")]
    pub(crate) fn waits_for_others(&self) -> bool {
        let state = self.state.lock();
        state.watched.0.iter().any(|((_, number), entry)| *number == 0 || !entry.known.is_empty())
    }

    /// Returns what is watched, for a session that polls its watches.
    #[cfg(feature = "postgres")]
    pub(crate) fn watched(&self) -> Vec<What> {
        self.state.lock().watched.0.keys().cloned().collect()
    }

    /// Notifies all waiters that the connection was lost.
    pub(crate) fn lose(&self) {
        let lost = std::mem::take(&mut *self.state.lock());
        lost.watched.lose();
    }

    /// Returns `true` if this client has a waiter.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.state.lock().watched.0.is_empty()
    }

    /// Returns when to query expiring sessions next.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.state.lock().ends.values().min().copied()
    }

    /// Takes the sessions that are due. They are not due again until they are noted. Sessions
    /// without waiters are forgotten.
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

    /// Returns at most this many of the sessions with waiters that are due next.
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

    /// Records how long these sessions have left.
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
    fn last_departing_watcher_is_known() {
        let watches = Watches::default();
        let [one, again] = [waits(&watches, "/a", 1), waits(&watches, "/a", 1)];
        assert!(!is_last(&watches, &one));
        drop(one);
        watches.notify_payload("/a/1f-x 1");
        // A later watch, which the first waiter must not affect.
        let later = waits(&watches, "/a", 1);
        assert!(!is_last(&watches, &again));
        assert!(is_last(&watches, &later));
        assert!(!is_last(&watches, &later));
    }

    #[tokio::test(start_paused = true)]
    async fn watched_sessions_are_checked_when_due() {
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
    async fn renewed_sessions_are_not_checked_again() {
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
