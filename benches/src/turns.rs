//! The holders over time, as seen within one process.

use std::sync::{Mutex, PoisonError};

use distlock_testkit::clock::now;

use crate::Result;

#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<Turn>);

#[derive(Debug, Default)]
struct Turn {
    held: bool,
    /// When the last holder began to unlock, and which one it was.
    released: Option<(u64, usize)>,
    token: u64,
}

impl Turns {
    /// Records a grant: returns its time, and how long after the start of the last unlock it was,
    /// if that was another contender's. Fails if the lock is held, or if tokens do not rise: then
    /// there is no lock to measure.
    pub(crate) fn granted(&self, who: usize, token: Option<u64>) -> Result<(u64, Option<u64>)> {
        let mut turn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = now();
        if turn.held {
            return Err("two contenders held the lock at once".into());
        }
        if let Some(token) = token {
            if token <= turn.token {
                return Err(format!("the token {token} came after {}", turn.token).into());
            }
            turn.token = token;
        }
        turn.held = true;
        let other = turn.released.filter(|(_, last)| *last != who);
        Ok((now, other.map(|(released, _)| now.saturating_sub(released))))
    }

    /// Records the start of an unlock.
    pub(crate) fn released(&self, who: usize) -> u64 {
        let mut turn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turn.held = false;
        let now = now();
        turn.released = Some((now, who));
        now
    }
}
