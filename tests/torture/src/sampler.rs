//! Looks at the guards from a thread of its own, however busy or blocked the rest of the process is.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use distlock::LockGuard;

use crate::event::{Event, Journal, micros, now};

const INTERVAL: Duration = Duration::from_millis(5);

/// Deadlines that differ by less are the same: they are told to the microsecond, by a clock that goes on between two readings.
const SAME: u64 = 2000;

#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    guards: Arc<Mutex<Vec<Watched>>>,
}

#[derive(Debug)]
struct Watched {
    lock: String,
    token: u64,
    guard: Weak<LockGuard>,
    /// Until when it was last said to be valid.
    until: u64,
    /// It has been invalid.
    over: bool,
}

impl Sampler {
    pub(crate) fn start(journal: Journal) -> Self {
        let guards: Arc<Mutex<Vec<Watched>>> = Arc::default();
        let watched = Arc::clone(&guards);
        std::thread::spawn(move || {
            loop {
                for watched in lock(&watched).iter_mut() {
                    watched.look(&journal);
                }
                std::thread::sleep(INTERVAL);
            }
        });
        Self { guards }
    }

    pub(crate) fn watch_over(&self, name: &str, guard: &Arc<LockGuard>) {
        let token = guard.fencing_token().as_u64();
        let guard = Arc::downgrade(guard);
        lock(&self.guards).push(Watched { lock: name.to_owned(), token, guard, until: 0, over: false });
    }

    pub(crate) fn forget(&self, token: u64) {
        lock(&self.guards).retain(|watched| watched.token != token);
    }
}

impl Watched {
    fn look(&mut self, journal: &Journal) {
        let Some(guard) = self.guard.upgrade() else { return };
        // Read before the guard looks at its own: it is valid until then at least.
        let before = now();
        let remaining = micros(guard.remaining());
        drop(guard);
        if remaining == 0 {
            self.over = true;
            return;
        }
        let (lock, token) = (self.lock.clone(), self.token);
        if std::mem::take(&mut self.over) {
            journal.tell(Event::Revived { lock: lock.clone(), token });
        }
        let until = before + remaining;
        if until > self.until + SAME {
            self.until = until;
            journal.tell_at(before, Event::Extended { lock, token, until });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
