//! Deletes the notes of past periods. The names of their locks may never be used again.

use std::{sync::Arc, time::Duration};

use super::{note_of, now as wall_now, read_note};
use crate::{
    backend::{Ask, Write, error::StoreError, name::Queue},
    error::{Error, Result},
    primitives::guard::LockGuard,
    queue::{self, Failure, Wait, attempt::Attempt, mode::Mode},
    runtime::random,
    session::Session,
};

/// The shortest interval between two searches by one session.
const EVERY: Duration = Duration::from_secs(600);
/// The maximum number of notes that a search reads. A deletion takes the lock and four requests.
const AT_ONCE: usize = 1000;
/// How many periods a note is kept. Clocks of hosts differ, and the next run may be late.
pub(super) const KEPT: u32 = 2;

/// Searches for obsolete notes in the background, unless the session did so less than [`EVERY`]
/// ago. It is called after a note was written: if none are added, none need to be removed.
pub(super) fn now_and_then(session: &Arc<Session>, queue: &Queue) {
    if !session.tidying.is_due(EVERY) {
        return;
    }
    let (weak, namespace) = (Arc::downgrade(session), queue.namespace().to_owned());
    session.shared.runtime.spawn(async move {
        let Some(session) = weak.upgrade() else { return };
        let Ok(names) = noted(&session, &namespace).await else { return };
        drop(session);
        for name in some_of(names) {
            // The task must not keep a dropped client alive.
            let Some(session) = weak.upgrade() else { return };
            if tidy(&session, &namespace, &name).await.is_err() {
                return;
            }
        }
    });
}

/// Returns the names of all locks that have a note.
async fn noted(session: &Session, namespace: &str) -> Result<Vec<String>, StoreError> {
    let ask = Ask::default();
    let notes = session.store.list(&Queue::periods(namespace), ask).await?.notes;
    Ok(notes.iter().filter_map(|note| Queue::name_in(note)).collect())
}

/// Returns at most [`AT_ONCE`] names, from a random one on: stores list them in order, and the
/// first ones may be current in every search.
fn some_of(mut names: Vec<String>) -> impl Iterator<Item = String> {
    if names.len() > AT_ONCE {
        let first = random::below(names.len());
        names.rotate_left(first);
    }
    names.into_iter().take(AT_ONCE)
}

/// Deletes this lock's note if it is obsolete, and skips a busy lock. It holds the lock, so that no
/// run begins in between.
async fn tidy(session: &Arc<Session>, namespace: &str, name: &str) -> Result<()> {
    let Ok(queue) = Queue::new(namespace, name) else { return Ok(()) };
    let key = note_of(&queue);
    let read = session.store.read(&key).await.map_err(|error| session.public(error))?;
    if !read.is_some_and(|note| is_over(&note)) {
        return Ok(());
    }
    let Some(attempt) = Attempt::in_session(session, &queue) else { return Err(Error::Closed) };
    let taken = queue::acquire(attempt, Wait::No, Mode::Exclusive).await;
    let hold = match taken {
        Ok(Some(hold)) => hold,
        Ok(None) => return Ok(()),
        Err(Failure::StaleSession(error) | Failure::Final(error)) => return Err(error),
    };
    let guard = LockGuard::new(hold);
    if guard.read(&key).await?.is_some_and(|note| is_over(&note)) {
        guard.commit(&[Write::Delete { key }]).await?;
    }
    guard.unlock().await
}

/// Returns `true` if a note is obsolete.
fn is_over(note: &[u8]) -> bool {
    let Some((began, period)) = read_note(note) else { return true };
    wall_now() >= began.saturating_add(period.saturating_mul(KEPT))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{super::write_note, *};

    #[test]
    fn period_record_is_kept_for_two_periods() {
        let now = wall_now().as_millis();
        for (ago, period, over) in [
            (0, 1_000, false),
            (5_000, 10_000, false),
            (19_000, 10_000, false),
            (20_001, 10_000, true),
        ] {
            let note = format!("{} {period}", now - ago);
            assert_eq!(is_over(note.as_bytes()), over, "{ago} {period}");
        }
        assert!(is_over(b"nonsense") && is_over(b""));
        assert!(!is_over(format!("{now} {}", u64::MAX).as_bytes()));
    }

    /// A run that was scheduled long ago, for which other hosts may be late, too.
    #[test]
    fn record_of_late_run_is_kept_for_two_periods() {
        let (now, period) = (wall_now(), Duration::from_secs(3600));
        for (ago, over) in [(0, false), (100, false), (199, false), (201, true)] {
            let claimed = now.saturating_sub(period * ago / 100);
            let note = write_note(claimed.saturating_sub(period * 72), claimed, period);
            assert_eq!(is_over(&note), over, "{ago}");
        }
    }

    #[test]
    fn searches_reach_every_note() {
        let names: Vec<_> = (0..AT_ONCE * 2).map(|name| name.to_string()).collect();
        let mut unread: HashSet<_> = names.iter().cloned().collect();
        for _ in 0..1000 {
            let read: Vec<_> = some_of(names.clone()).collect();
            assert_eq!(read.len(), AT_ONCE);
            read.iter().for_each(|name| {
                unread.remove(name);
            });
            if unread.is_empty() {
                return;
            }
        }
        panic!("{} notes were never read", unread.len());
    }
}
