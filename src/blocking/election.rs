//! A named election.

use std::{fmt, ops::Deref, time::Duration};

use super::{LockGuard, wait, wait_at_most};
use crate::{
    Leader, Result,
    primitives::election::{self, Turn},
};

/// A named election: [`distlock::Election`](crate::Election) for threads. Made by
/// [`Client::election`](super::Client::election); cheap to make, to clone and to throw away.
///
/// # Examples
///
/// ```
/// # fn main() -> distlock::Result<()> {
/// let client = distlock::blocking::Client::connect("memory://docs-blocking-election")?;
/// let election = client.election("scheduler");
/// assert!(election.leader()?.is_none());
///
/// let leadership = election.campaign("10.0.0.7:8080")?;
/// let leader = election.leader()?.expect("it was just elected");
/// assert_eq!(leader.value_str(), Some("10.0.0.7:8080"));
///
/// let mut leaders = election.observe()?;
/// assert_eq!(leaders.next(), Some(leader));
/// leadership.proclaim("10.0.0.7:9090")?;
/// assert_eq!(leaders.next().expect("the client is open").value(), b"10.0.0.7:9090");
/// leadership.resign()
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Election {
    election: crate::Election,
}

/// The leader's right to lead. It is a [`LockGuard`]: dropping it resigns in the background.
#[must_use = "the leader resigns as soon as this is dropped"]
pub struct Leadership {
    guard: LockGuard,
    turn: Turn,
}

/// The leaders of an election, one after the other: an iterator that blocks until there is another
/// one, and ends when the client is closed. Made by [`Election::observe`].
///
/// As [`distlock::Observe`](crate::Observe) it keeps the client open, gets over lost connections,
/// and leaves out what was overtaken.
#[derive(Debug)]
#[must_use = "it does nothing unless it is asked for the next leader"]
pub struct Observe {
    leaders: crate::Observe,
}

impl Election {
    pub(super) fn new(election: crate::Election) -> Self {
        Self { election }
    }

    /// The name as it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        self.election.name()
    }

    /// Stands for election with this value, of at most 16 KiB, and waits until it leads.
    ///
    /// # Errors
    ///
    /// As [`distlock::Election::campaign`](crate::Election::campaign).
    pub fn campaign(&self, value: impl AsRef<[u8]>) -> Result<Leadership> {
        wait(self.election.campaign(value)).map(Leadership::new)
    }

    /// Leads if nobody else is a candidate; `None` if somebody is.
    ///
    /// # Errors
    ///
    /// As [`distlock::Election::try_campaign`](crate::Election::try_campaign).
    pub fn try_campaign(&self, value: impl AsRef<[u8]>) -> Result<Option<Leadership>> {
        Ok(wait(self.election.try_campaign(value))?.map(Leadership::new))
    }

    /// The same as [`campaign`](Self::campaign), but for no longer than this; `None` when the time
    /// is up.
    ///
    /// # Errors
    ///
    /// As [`distlock::Election::campaign_timeout`](crate::Election::campaign_timeout).
    pub fn campaign_timeout(
        &self,
        value: impl AsRef<[u8]>,
        timeout: Duration,
    ) -> Result<Option<Leadership>> {
        Ok(wait(self.election.campaign_timeout(value, timeout))?.map(Leadership::new))
    }

    /// Who leads now; `None` if nobody does. Asks the store for its newest state.
    ///
    /// # Errors
    ///
    /// As [`distlock::Election::leader`](crate::Election::leader).
    pub fn leader(&self) -> Result<Option<Leader>> {
        wait(self.election.leader())
    }

    /// All leaders from now on: the present one first, if there is one, then each later one, and
    /// each later value of the one that leads. Nothing happens until it is asked for the first.
    ///
    /// # Errors
    ///
    /// As [`distlock::Election::observe`](crate::Election::observe).
    pub fn observe(&self) -> Result<Observe> {
        Ok(Observe { leaders: self.election.observe()? })
    }

    /// The same election, for tasks.
    #[must_use]
    pub fn as_async(&self) -> &crate::Election {
        &self.election
    }
}

impl Leadership {
    fn new(leadership: crate::Leadership) -> Self {
        Self { guard: LockGuard::new(leadership.guard), turn: leadership.turn }
    }

    /// Tells another value, of at most 16 KiB, without losing the lead. `Ok` when the store has
    /// confirmed it.
    ///
    /// # Errors
    ///
    /// As [`distlock::Leadership::proclaim`](crate::Leadership::proclaim).
    pub fn proclaim(&self, value: impl AsRef<[u8]>) -> Result<()> {
        wait(election::proclaim(self.guard.as_async(), &self.turn, value.as_ref()))
    }

    /// Lets the next candidate lead: [`LockGuard::unlock`].
    ///
    /// # Errors
    ///
    /// As [`LockGuard::unlock`].
    pub fn resign(self) -> Result<()> {
        self.guard.unlock()
    }
}

impl Deref for Leadership {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership").field("guard", &self.guard).finish_non_exhaustive()
    }
}

impl Observe {
    /// The next leader, but waits for no longer than this; `None` when the time is up, or the
    /// client is closed. Nothing is missed: the next call may have it.
    #[must_use = "what it has told is not told again"]
    pub fn next_timeout(&mut self, timeout: Duration) -> Option<Leader> {
        wait_at_most(timeout, self.leaders.next()).flatten()
    }
}

impl Iterator for Observe {
    type Item = Leader;

    fn next(&mut self) -> Option<Leader> {
        wait(self.leaders.next())
    }
}
