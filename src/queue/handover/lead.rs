//! The one who takes a lock from the store for all contenders of a client.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
};

use super::{Handover, Share, Tenure};
use crate::{
    backend::name::Queue,
    error::Result,
    queue::{Hold, Wait, acquire},
    session::Sessions,
};

/// A place in the store's queue, or the way there. It outlives the leader who began it: or else a
/// client whose callers wait less long than the queue takes would join its end again and again and
/// never get there.
pub(super) type Acquiring = Pin<Box<dyn Future<Output = Result<Option<Hold>>> + Send>>;

/// The task to take the lock from the store. If it is dropped undone, the next one gets it.
pub(super) struct Lead {
    handover: Arc<Handover>,
    name: Arc<str>,
    term: u64,
    taking: Option<Acquiring>,
    armed: bool,
}

impl Lead {
    pub(super) fn new(
        handover: Arc<Handover>,
        name: Arc<str>,
        term: u64,
        taking: Option<Acquiring>,
    ) -> Self {
        Self { handover, name, term, taking, armed: true }
    }

    pub(super) fn disarm(mut self) -> Option<Acquiring> {
        self.armed = false;
        self.taking.take()
    }

    pub(super) async fn take(mut self, sessions: &Sessions, wait: Wait) -> Result<Option<Share>> {
        let queue = Queue::new(&sessions.shared().namespace, &self.name)?;
        let taken = match wait {
            Wait::No => {
                let taking = pin!(acquire::take(sessions, &queue, wait));
                wait.bounds(sessions, taking).await
            }
            Wait::Forever | Wait::Until(_) => {
                let taking = self.taking.get_or_insert_with(|| {
                    let sessions = sessions.clone();
                    Box::pin(async move { acquire::take(&sessions, &queue, Wait::Forever).await })
                });
                let runtime = &sessions.shared().runtime;
                let taken = runtime.within(wait.before(taking)).await;
                let Some(taken) = taken else { return Ok(None) };
                // It is done, and of no use to anybody else.
                self.taking = None;
                taken
            }
        };
        let Some(hold) = taken? else { return Ok(None) };
        let tenure = Tenure::new(&hold, self.term)?;
        self.armed = false;
        self.handover.granted(hold, tenure).map(Some)
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if self.armed {
            self.handover.appoint(&self.name, self.term, self.taking.take());
        }
    }
}
