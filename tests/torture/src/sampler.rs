//! Samples the guards from a separate thread, however busy or blocked the rest of the process is.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use distlock_testkit::clock::{micros, uptime};

use crate::{
    event::{Event, Journal},
    primitive::Held,
};

const INTERVAL: Duration = Duration::from_millis(5);

/// Deadlines that differ by less count as equal: they are computed to the microsecond, from two
/// readings of a running clock.
const SAME: u64 = 2000;

#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    guards: Arc<Mutex<Vec<Watched>>>,
}

#[derive(Debug)]
struct Watched {
    lock: String,
    token: u64,
    held: Weak<Held>,
    /// The index of the guard.
    index: usize,
    /// The deadline that was recorded last.
    until: u64,
    /// The guard was invalid.
    over: bool,
}

impl Sampler {
    pub(crate) fn start(journal: Journal) -> Self {
        let guards: Arc<Mutex<Vec<Watched>>> = Arc::default();
        let watched = Arc::clone(&guards);
        std::thread::spawn(move || {
            loop {
                for watched in lock(&watched).iter_mut() {
                    watched.sample(&journal);
                }
                std::thread::sleep(INTERVAL);
            }
        });
        Self { guards }
    }

    pub(crate) fn watch_over(&self, held: &Arc<Held>) {
        let parts = held.parts().into_iter().enumerate();
        lock(&self.guards).extend(parts.map(|(index, (lock, token))| {
            let held = Arc::downgrade(held);
            Watched { lock, token, held, index, until: 0, over: false }
        }));
    }

    pub(crate) fn forget(&self, held: &Arc<Held>) {
        lock(&self.guards).retain(|watched| watched.held.as_ptr() != Arc::as_ptr(held));
    }
}

impl Watched {
    fn sample(&mut self, journal: &Journal) {
        let Some(held) = self.held.upgrade() else { return };
        // Read before the guard's own check: the guard is valid at least until then.
        let before = uptime();
        let remaining = micros(held.guards()[self.index].remaining());
        drop(held);
        if remaining == 0 {
            self.over = true;
            return;
        }
        let (lock, token) = (self.lock.clone(), self.token);
        if std::mem::take(&mut self.over) {
            journal.record(Event::Revived { lock: lock.clone(), token });
        }
        let until = before + remaining;
        if until > self.until + SAME {
            self.until = until;
            journal.record_at(before, Event::Extended { lock, token, until });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
