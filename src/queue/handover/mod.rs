//! Local hand-over: the contenders of one lock within one client share one key in the store's
//! queue, and pass the lock among themselves.

use std::{collections::BTreeMap, fmt, sync::Arc};

use tokio::sync::oneshot;

use crate::{
    error::{Error, Result},
    queue::{Hold, Wait},
    runtime::{
        Runtime,
        mutex::{Mutex, MutexGuard},
    },
    session::Sessions,
};

mod lead;
mod share;

use lead::{Acquiring, Lead};
pub(crate) use share::{Passing, Share, Tenure};

/// What a client's contenders know of each other.
///
/// Everything is under one lock, as briefly as a few memory accesses take: who waits, who leads,
/// who holds change together. Nobody is woken and nothing is dropped under it, as either may run
/// code of the caller's.
pub(crate) struct Handover {
    /// How often the lock is passed on before others get their turn.
    max: u32,
    runtime: Runtime,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    closed: bool,
    /// Numbers the waiters and the terms.
    last: u64,
    /// By the locks' names, those that somebody of this client holds or is about to take. The
    /// others are not here.
    locals: BTreeMap<Arc<str>, Local>,
}

/// The contenders for one lock: one is in charge, the others wait.
#[derive(Default)]
struct Local {
    /// The present leader or holder has this number; another one has no say any more.
    term: u64,
    held: Option<Current>,
    /// By their numbers: in the order in which they came.
    waiting: Waiting,
}

type Waiting = BTreeMap<u64, oneshot::Sender<Turn>>;

/// The lock, once it is taken.
struct Current {
    hold: Hold,
    tenure: Arc<Tenure>,
    /// The number of the latest grant.
    grant: u16,
    /// How often it was passed on since others were last known not to wait.
    passed: u32,
    /// Somebody watches for its loss.
    watched: bool,
}

/// What a waiter is given.
enum Turn {
    /// The lock.
    Share(Share),
    /// The task to take it from the store.
    Lead(Lead),
}

/// Whether other clients wait for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    Unknown,
    Wait,
    Absent,
}

/// What becomes of a caller.
enum Role<'a> {
    Leads(Lead),
    Waits(Waiter<'a>),
}

impl Handover {
    pub(crate) fn new(max: u32, runtime: Runtime) -> Self {
        Self { max, runtime, state: Mutex::default() }
    }

    /// Takes the lock, from a holder of this client's or from the store. May be dropped at any
    /// await.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        sessions: &Sessions,
        name: &str,
        wait: Wait,
    ) -> Result<Option<Share>> {
        if matches!(wait, Wait::No) {
            let Some(lead) = self.stand_alone(name)? else { return Ok(None) };
            return Box::pin(lead.take(sessions, wait)).await;
        }
        let (mut number, mut lost) = (None, None);
        loop {
            let stand = self.stand(name, number)?;
            // Not before one stands in front again.
            drop(lost.take());
            let mut waiter = match stand {
                Role::Leads(lead) => return Box::pin(lead.take(sessions, wait)).await,
                Role::Waits(waiter) => waiter,
            };
            number = Some(waiter.number);
            let permit = self.runtime.within(wait.before(waiter.permit())).await;
            let Some(permit) = permit else { return Ok(None) };
            match permit? {
                Turn::Lead(lead) => return Box::pin(lead.take(sessions, wait)).await,
                Turn::Share(grant) if grant.tenure().is_valid() => return Ok(Some(grant)),
                // Lost on the way: the next grant comes from the store.
                Turn::Share(grant) => lost = Some(grant),
            }
        }
    }

    /// Leads, if nobody of this client is at this lock, or stands in its queue: at the end, or
    /// where `number` stood before.
    fn stand<'a>(self: &'a Arc<Self>, name: &'a str, number: Option<u64>) -> Result<Role<'a>> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Error::Closed);
        }
        state.last += 1;
        let new = state.last;
        let Some(local) = state.locals.get_mut(name) else {
            return Ok(Role::Leads(self.appoint_first(state, name, new)));
        };
        let number = number.unwrap_or(new);
        let (sender, permit) = oneshot::channel();
        local.waiting.insert(number, sender);
        let watch = local.watch();
        drop(state);
        self.watch(watch);
        Ok(Role::Waits(Waiter { handover: self, name, number, permit, done: false }))
    }

    /// Leads if nobody of this client has or wants this lock.
    fn stand_alone(self: &Arc<Self>, name: &str) -> Result<Option<Lead>> {
        loop {
            let mut state = self.state.lock();
            if state.closed {
                return Err(Error::Closed);
            }
            let Some(local) = state.locals.get(name) else {
                state.last += 1;
                let term = state.last;
                return Ok(Some(self.appoint_first(state, name, term)));
            };
            let tenure = local.held.as_ref().map(|held| Arc::clone(&held.tenure));
            drop(state);
            match tenure {
                // Its guard may be kept for as long as anyone likes; the lock is free to be taken.
                Some(tenure) if !tenure.is_valid() => self.forfeit(&tenure),
                _ => return Ok(None),
            }
        }
    }

    fn appoint_first(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        name: &str,
        term: u64,
    ) -> Lead {
        let name = Arc::<str>::from(name);
        state.locals.insert(Arc::clone(&name), Local { term, ..Local::default() });
        Lead::new(Arc::clone(self), name, term, None)
    }

    /// Makes the next one in the queue the leader, who goes on with what was begun. If there is
    /// none, that is dropped.
    fn appoint(self: &Arc<Self>, name: &Arc<str>, term: u64, mut taking: Option<Acquiring>) {
        loop {
            let mut state = self.state.lock();
            let Some(local) = state.of_term(name, term) else { return };
            let Some((_, next)) = local.waiting.pop_first() else {
                state.locals.remove(name);
                return;
            };
            drop(state);
            let lead = Lead::new(Arc::clone(self), Arc::clone(name), term, taking);
            let Err(permit) = next.send(Turn::Lead(lead)) else { return };
            // Gone a moment ago.
            taking = permit.take_back();
        }
    }

    /// The leader has taken the lock.
    fn granted(self: &Arc<Self>, hold: Hold, tenure: Tenure) -> Result<Share> {
        let tenure = Arc::new(tenure);
        let mut state = self.state.lock();
        // Nobody else ends a leader's term.
        let local = state.of_term(tenure.name(), tenure.term).ok_or(Error::Closed)?;
        let held = Arc::clone(&tenure);
        local.held = Some(Current { hold, tenure: held, grant: 0, passed: 0, watched: false });
        let watch = if local.waiting.is_empty() { None } else { local.watch() };
        drop(state);
        self.watch(watch);
        Ok(Share::new(Arc::clone(self), tenure, 0))
    }

    /// A holder is done: gives the lock to the next one in the queue, if it may; else tells what
    /// there is to do.
    fn pass(self: &Arc<Self>, tenure: &Arc<Tenure>, others: Others) -> Passing {
        loop {
            // First: it may wake somebody.
            let valid = tenure.is_valid();
            let mut state = self.state.lock();
            let Some((waiting, held)) = state.held_in(tenure) else {
                return Passing::Over;
            };
            if others == Others::Absent {
                held.passed = 0;
            }
            let may =
                valid && others != Others::Wait && held.grant < u16::MAX && !waiting.is_empty();
            if may && held.passed >= self.max {
                return Passing::Undecided;
            }
            let next = if may { waiting.pop_first() } else { None };
            let Some((_, next)) = next else {
                return self.let_go(state, tenure).map_or(Passing::Over, Passing::LetGo);
            };
            held.passed += 1;
            held.grant += 1;
            let grant = held.grant;
            drop(state);
            let share = Share::new(Arc::clone(self), Arc::clone(tenure), grant);
            match next.send(Turn::Share(share)) {
                Ok(()) => return Passing::Passed,
                // Gone a moment ago.
                Err(permit) => drop(permit.take_back()),
            }
        }
    }

    /// The lock is lost, though its holder has not let go of it: the next grant comes from the
    /// store.
    fn forfeit(self: &Arc<Self>, tenure: &Tenure) {
        drop(self.let_go(self.state.lock(), tenure));
    }

    /// Ends the term of a holder and lets the next one lead. The caller releases the lock.
    fn let_go(self: &Arc<Self>, mut state: MutexGuard<'_, State>, tenure: &Tenure) -> Option<Hold> {
        state.last += 1;
        let next_term = state.last;
        let local = state.of_term(tenure.name(), tenure.term)?;
        let held = local.held.take()?;
        if local.waiting.is_empty() {
            // At once: one who only tries must not find that somebody is about to take it.
            state.locals.remove(tenure.name());
            drop(state);
            return Some(held.hold);
        }
        local.term = next_term;
        let name = state.locals.get_key_value(tenure.name()).map(|(name, _)| Arc::clone(name))?;
        drop(state);
        self.appoint(&name, next_term, None);
        Some(held.hold)
    }

    /// Watches for the loss of a lock, so that waiters need not wait for its holder.
    fn watch(self: &Arc<Self>, tenure: Option<Arc<Tenure>>) {
        let Some(tenure) = tenure else { return };
        let handover = Arc::clone(self);
        self.runtime.spawn(async move {
            if tenure.lost_before_it_ended().await {
                handover.forfeit(&tenure);
            }
        });
    }

    /// All that wait are told, and all that come later.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let waiting = state
            .locals
            .values_mut()
            .map(|local| std::mem::take(&mut local.waiting))
            .collect::<Vec<_>>();
        drop(state);
        drop(waiting);
    }
}

impl fmt::Debug for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handover").field("max", &self.max).finish_non_exhaustive()
    }
}

impl State {
    fn of_term(&mut self, name: &str, term: u64) -> Option<&mut Local> {
        self.locals.get_mut(name).filter(|local| local.term == term)
    }

    fn held_in(&mut self, tenure: &Tenure) -> Option<(&mut Waiting, &mut Current)> {
        let local = self.of_term(tenure.name(), tenure.term)?;
        local.held.as_mut().map(|held| (&mut local.waiting, held))
    }
}

impl Local {
    /// What is to be watched for its loss, now that somebody waits for it; once for each time it is
    /// taken.
    fn watch(&mut self) -> Option<Arc<Tenure>> {
        let held = self.held.as_mut().filter(|held| !held.watched)?;
        held.watched = true;
        Some(Arc::clone(&held.tenure))
    }
}

impl Turn {
    /// It was not received: unlike dropping it, this gives it to nobody else.
    fn take_back(self) -> Option<Acquiring> {
        match self {
            Self::Share(grant) => {
                grant.disarm();
                None
            }
            Self::Lead(lead) => lead.disarm(),
        }
    }
}

/// A caller that waits for its turn. If it goes away the turn is the next one's, even if it was
/// just given.
struct Waiter<'a> {
    handover: &'a Handover,
    name: &'a str,
    number: u64,
    permit: oneshot::Receiver<Turn>,
    done: bool,
}

impl Waiter<'_> {
    async fn permit(&mut self) -> Result<Turn> {
        let permit = (&mut self.permit).await;
        self.done = true;
        // Only the client's end forgets those who wait.
        permit.map_err(|_| Error::Closed)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if !self.done {
            let mut state = self.handover.state.lock();
            let own = state
                .locals
                .get_mut(self.name)
                .and_then(|local| local.waiting.remove(&self.number));
            drop(state);
            drop(own);
        }
    }
}

#[cfg(test)]
mod tests;
