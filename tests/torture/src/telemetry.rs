//! What the library tells of itself, written into the history beside what the worker sees.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
    time::Duration,
};

use distlock_testkit::telemetry::{Told, listen};
use tokio::time::sleep;

use crate::event::{Event, Journal};

/// The names by which the checker knows them.
pub(crate) const GRANTED: &str = "granted";
pub(crate) const RELEASED: &str = "released";
/// What follows tells why.
pub(crate) const LOST: &str = "lost: ";
pub(crate) const ACQUIRE: &str = "distlock.acquire.duration";
pub(crate) const HOLD: &str = "distlock.hold.duration";
pub(crate) const LOSSES: &str = "distlock.lost";
/// What goes back to zero.
pub(crate) const GAUGES: [&str; 4] =
    ["distlock.held", "distlock.waiters", "distlock.leader", "distlock.release.pending"];

/// Listens to the library.
#[derive(Debug)]
pub(crate) struct Listener {
    /// What it has told of that is not over.
    open: Arc<AtomicI64>,
}

impl Listener {
    pub(crate) fn start(journal: &Journal) -> Self {
        let open = Arc::<AtomicI64>::default();
        let (journal, count) = (journal.clone(), Arc::clone(&open));
        listen(move |told| {
            let change = match &told {
                Told::Opened(..) => 1,
                Told::Closed(..) => -1,
                Told::Changed(name, _, by) if GAUGES.contains(&&**name) => *by as i64,
                _ => 0,
            };
            if let Some(event) = event(told) {
                journal.tell(event);
            }
            count.fetch_add(change, SeqCst);
        })
        .for_life();
        Self { open }
    }

    /// Waits until the end of all that has begun was told.
    pub(crate) async fn all_told(&self) {
        while self.open.load(SeqCst) != 0 {
            sleep(Duration::from_millis(1)).await;
        }
    }
}

fn event(told: Told) -> Option<Event> {
    match told {
        Told::Counted(metric, labels, by) => {
            Some(Event::Measured { metric, labels, value: by as f64 })
        }
        Told::Changed(metric, labels, value) | Told::Measured(metric, labels, value) => {
            Some(Event::Measured { metric, labels, value })
        }
        Told::Logged(level, message, fields, _) => Some(Event::Logged { level, message, fields }),
        Told::Set(..) | Told::Described(..) | Told::Opened(..) | Told::Closed(..) => None,
    }
}
