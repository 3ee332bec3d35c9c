//! Writes the library's signals into the history, in addition to what the worker sees.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
    time::Duration,
};

use distlock_testkit::telemetry::{Signal, listen};
use tokio::time::sleep;

use crate::event::{Event, Journal};

/// The messages and metrics that the checker evaluates.
pub(crate) const GRANTED: &str = "granted";
pub(crate) const RELEASED: &str = "released";
/// The reason follows.
pub(crate) const LOST: &str = "lost: ";
pub(crate) const ACQUIRE: &str = "distlock.acquire.duration";
pub(crate) const HOLD: &str = "distlock.hold.duration";
pub(crate) const LOSSES: &str = "distlock.lost";
/// The gauges that return to zero.
pub(crate) const GAUGES: [&str; 4] =
    ["distlock.held", "distlock.waiters", "distlock.leader", "distlock.release.pending"];

/// Listens to the library.
#[derive(Debug)]
pub(crate) struct Listener {
    /// The number of open spans, and the sum of the gauges.
    open: Arc<AtomicI64>,
}

impl Listener {
    pub(crate) fn start(journal: &Journal) -> Self {
        let open = Arc::<AtomicI64>::default();
        let (journal, count) = (journal.clone(), Arc::clone(&open));
        listen(move |signal| {
            let change = match &signal {
                Signal::Opened(..) => 1,
                Signal::Closed(..) => -1,
                Signal::Changed(name, _, by) if GAUGES.contains(&&**name) => *by as i64,
                _ => 0,
            };
            if let Some(event) = event(signal) {
                journal.record(event);
            }
            count.fetch_add(change, SeqCst);
        })
        .for_life();
        Self { open }
    }

    /// Waits until all spans and gauges have ended.
    pub(crate) async fn all_ended(&self) {
        while self.open.load(SeqCst) != 0 {
            sleep(Duration::from_millis(1)).await;
        }
    }
}

fn event(signal: Signal) -> Option<Event> {
    match signal {
        Signal::Counted(metric, labels, by) => {
            Some(Event::Measured { metric, labels, value: by as f64 })
        }
        Signal::Changed(metric, labels, value) | Signal::Measured(metric, labels, value) => {
            Some(Event::Measured { metric, labels, value })
        }
        Signal::Logged(level, message, fields, _) => Some(Event::Logged { level, message, fields }),
        Signal::Set(..) | Signal::Described(..) | Signal::Opened(..) | Signal::Closed(..) => None,
    }
}
