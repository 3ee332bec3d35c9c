//! The events of a trial's clients.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use distlock_testkit::{Result, clock::now, event::Event};
use fastrand::Rng;
use tokio::time::sleep;

use crate::client::{LOCKS, Sink};

/// How long it may take until each lock is granted again.
const PATIENCE: Duration = Duration::from_secs(300);

/// The events with their clients' numbers, in the order in which they were reported.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events(Arc<Mutex<Vec<(usize, Event)>>>);

impl Events {
    pub(crate) fn all(&self) -> MutexGuard<'_, Vec<(usize, Event)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the sink for a client's events.
    pub(crate) fn sink(&self, client: usize) -> Sink {
        let events = self.clone();
        Arc::new(move |event| events.all().push((client, event)))
    }

    /// Returns the client with the latest grant of the lock since then.
    fn granted(&self, since: u64, lock: &str) -> Option<usize> {
        let events = self.all();
        let mut grants = events.iter().rev().filter(|(_, event)| event.word == "grant");
        let found = grants.find(|(_, event)| event.at < since || event.rest.starts_with(lock));
        found.filter(|(_, event)| event.at >= since).map(|(client, _)| *client)
    }

    /// Waits for a random moment for a power cut: any time, or just after a grant. Returns the
    /// client with that grant.
    pub(crate) async fn moment(&self, random: &mut Rng) -> Option<usize> {
        if random.bool() {
            sleep(Duration::from_millis(random.u64(0..1500))).await;
            return None;
        }
        sleep(Duration::from_millis(random.u64(0..300))).await;
        let (since, lock) = (now(), LOCKS[random.usize(..LOCKS.len())]);
        let end = Instant::now() + PATIENCE;
        let mut granted = None;
        while granted.is_none() && Instant::now() < end {
            sleep(Duration::from_millis(1)).await;
            granted = self.granted(since, lock);
        }
        sleep(Duration::from_micros(random.u64(0..3000))).await;
        granted
    }

    /// Waits until each lock was granted since then. Fails if the server ends.
    pub(crate) async fn served(
        &self,
        since: u64,
        mut ended: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while LOCKS.iter().any(|lock| self.granted(since, lock).is_none()) {
            if ended()? {
                return Err("the server has ended".into());
            }
            if Instant::now() > end {
                let events = self.all();
                let refused = events.iter().rev().find(|(_, event)| event.word == "refused");
                let why = refused.map(|(_, event)| event.to_string()).unwrap_or_default();
                return Err(format!("no lock was granted for {PATIENCE:?}: {why}").into());
            }
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}
