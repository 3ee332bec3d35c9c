//! What a session knows of queues, which decides whether a single `UPDATE` may suffice. It is only
//! a hint: a request that does not fit does nothing, and another one follows.

use std::sync::Arc;

use super::{lockable::Lockable, message::Message, places::is_alone};
use crate::backend::sql::{
    noted_queues::NotedQueues,
    step::{Kind, Step},
};

#[derive(Debug)]
pub(super) struct KnownQueues {
    /// The queues whose rows in `distlock_alone` were last seen open.
    open: NotedQueues,
    /// The queues that had other entries.
    crowded: NotedQueues,
    lockable: Arc<Lockable>,
}

impl KnownQueues {
    pub(super) fn new(lockable: Arc<Lockable>) -> Self {
        Self { open: NotedQueues::default(), crowded: NotedQueues::default(), lockable }
    }

    /// Returns `true` if the step may be done at once.
    pub(super) fn fits(&self, step: &Step) -> bool {
        match step {
            Step::Join { dir, .. } => !self.crowded.contains(dir),
            Step::Leave { number, ticket, .. } => {
                number.is_some() && !self.lockable.contains(ticket)
            }
        }
    }

    /// Returns `true` if the step may be done at once, together with others.
    pub(super) fn travels(&self, step: &Step) -> bool {
        let is_alone = match step {
            Step::Leave { number, successor, .. } => {
                let number = number.and_then(|number| u64::try_from(number).ok());
                successor.is_none() && number.is_some_and(is_alone)
            }
            Step::Join { .. } => true,
        };
        is_alone && self.fits(step)
    }

    /// Returns `true` if one `UPDATE` may be sufficient for the message.
    pub(super) fn is_open(&self, message: &Message) -> bool {
        match &message.step {
            Some(Step::Join { dir, .. }) => self.open.contains(dir),
            _ => true,
        }
    }

    /// Returns the join of a queue that had other entries.
    pub(super) fn crowded<'m>(&self, message: &'m Message) -> Option<&'m Step> {
        let step = message.step.as_ref()?;
        (step.kind() == Kind::Join && self.crowded.contains(step.dir())).then_some(step)
    }

    /// Records that the message was done at once, together with others or not.
    pub(super) fn done_at_once(&self, message: &Message) {
        if let Some(Step::Join { dir, .. }) = &message.step {
            self.open.note(dir, true);
        }
    }

    /// Records that an entry has joined, or that none did because the lock is taken.
    pub(super) fn joined(&self, dir: &str, is_alone: bool, is_crowded: bool) {
        self.crowded.note(dir, is_crowded);
        self.open.note(dir, is_alone);
    }
}
