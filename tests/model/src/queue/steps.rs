//! The effect of each step.

use super::{
    model::{Bounds, Lock, Step},
    rules::Rule,
    state::{Broken, CLIENTS, Client, Key, Keys, Stage, View, Wait},
    waiter::{self, Turn},
};
use crate::check::Next;

impl Next<'_, Lock> {
    fn client(&mut self, client: usize) -> &mut Client {
        &mut self.state.clients[client]
    }

    /// Returns `None` if the step is not possible in this state.
    pub(crate) fn take(&mut self, step: Step) -> Option<()> {
        match step {
            Step::Join(c) => self.join(c),
            Step::JoinLate(c) => self.join_late(c),
            Step::ApplyLate(c) => self.apply_late(c),
            Step::DropLate(c) => self.client(c).late.take().map(|_| ()),
            Step::LoseReply(c) => self.lose_reply(c),
            Step::JoinAnswered(c) => self.join_answered(c),
            Step::Watch(c) => self.watch(c),
            Step::CatchUp(c) => self.catch_up(c),
            Step::Look(c) => self.look(c),
            Step::Recheck(c) => self.recheck(c),
            Step::Leave(c) => self.leave(c),
            Step::LoseLeave(c) => self.lose_leave(c),
            Step::LookAgain(c) => self.look_again(c),
            Step::Renew(c) => self.renew(c),
            Step::RenewalAnswered(c) => self.renewal_answered(c),
            Step::EvictionNoticed(c) => self.eviction_noticed(c),
            Step::GiveUp(c) => self.give_up(c),
            Step::Expire(c) => self.expire(c),
            Step::Delete(n) => self.delete(n),
            Step::Tick => self.tick(),
        }
    }

    fn spend(&mut self, what: fn(&mut Bounds) -> &mut u8) -> Option<()> {
        let left = what(&mut self.state.left);
        *left = left.checked_sub(1)?;
        Some(())
    }

    // The attempt.

    /// Starts an attempt. All clients are alike: their first attempts come in the order of their
    /// names.
    fn begin(&mut self, c: usize) -> Option<()> {
        let turn = c == 0 || self.state.clients[c - 1].attempt > 0;
        self.spend(|left| &mut left.attempts)?;
        self.client(c).attempt += 1;
        turn.then_some(())
    }

    fn fault(&mut self) -> Option<()> {
        self.spend(|left| &mut left.faults)
    }

    fn put(&mut self, c: usize, attempt: u8) -> u8 {
        self.state.newest += 1;
        let n = self.state.newest;
        self.state.queue.push(Key { n, client: c, attempt });
        n
    }

    /// Applies a request to join, the first one or a repeated one.
    fn join(&mut self, c: usize) -> Option<()> {
        if self.state.clients[c].stage != Stage::Doubt {
            self.begin(c)?;
        } else if self.state.clients[c].expired {
            return None;
        }
        let attempt = self.state.clients[c].attempt;
        let there = self.state.key_of(c, attempt).filter(|_| self.on(Rule::OneKey));
        let before = self.state.keys();
        let wait = if let Some(own) = there {
            Wait::read(own, before.up_to(own))
        } else {
            let own = self.put(c, attempt);
            let view = if self.on(Rule::NotBehind) { before.with(own) } else { before };
            Wait::joined(own, Some(own - 1), view)
        };
        self.client(c).stage = Stage::Joined(wait);
        Some(())
    }

    fn join_late(&mut self, c: usize) -> Option<()> {
        self.begin(c)?;
        self.fault()?;
        let client = self.client(c);
        if client.late.is_some() {
            return None;
        }
        (client.stage, client.doubtful, client.late) = (Stage::Doubt, true, Some(client.attempt));
        Some(())
    }

    fn apply_late(&mut self, c: usize) -> Option<()> {
        let attempt = self.client(c).late.take()?;
        if self.state.key_of(c, attempt).is_none() || !self.on(Rule::OneKey) {
            self.put(c, attempt);
        }
        Some(())
    }

    fn lose_reply(&mut self, c: usize) -> Option<()> {
        let Stage::Joined(_) = self.state.clients[c].stage else { return None };
        self.fault()?;
        let client = self.client(c);
        (client.stage, client.doubtful) = (Stage::Doubt, true);
        Some(())
    }

    fn join_answered(&mut self, c: usize) -> Option<()> {
        match self.state.clients[c].stage.answered()? {
            Turn::Waits(stage) => self.client(c).stage = stage,
            Turn::Granted(wait) if self.grant(c, wait, false).is_none() => {
                self.client(c).stage = Stage::Woken(wait);
            }
            Turn::Granted(_) | Turn::Evicted(_) => {}
        }
        Some(())
    }

    /// Grants the lock, or returns `None` after the deadline. The client looks again once its
    /// session is renewed.
    fn grant(&mut self, c: usize, wait: Wait, waited: bool) -> Option<()> {
        let own = wait.own;
        let left = self.state.clients[c].deadline.into();
        if !waiter::may_be_granted(left, |rule| self.on(rule)) {
            return None;
        }
        let keys = self.state.keys();
        let client = self.client(c);
        client.stage = Stage::Holding { own, waited };
        // Its key existed when the look was answered, and the session has not ended.
        client.evicted_while_held =
            !keys.has(own) && (!waited || wait.view.has(own)) && !client.expired;
        if keys.ahead_of(own) != Keys::default() {
            self.state.broken = Some(Broken::Early);
        } else if own < self.state.granted && !self.state.clients[c].evicted_while_held {
            self.state.broken = Some(Broken::Order);
        }
        self.state.granted = self.state.granted.max(own);
        Some(())
    }

    /// Deletes the key: a cancel, a release, or a repeated request for one of them.
    fn leave(&mut self, c: usize) -> Option<()> {
        let (own, attempt) = (self.state.clients[c].own(), self.state.clients[c].attempt);
        self.remove(|key| match own {
            Some(own) => key.n == own,
            None => key.client == c && key.attempt == attempt,
        });
        self.end_attempt(c)
    }

    fn lose_leave(&mut self, c: usize) -> Option<()> {
        self.fault()?;
        if !self.on(Rule::UntilConfirmed) {
            return self.end_attempt(c);
        }
        let client = self.client(c);
        client.stage = Stage::Leaving(client.own());
        Some(())
    }

    fn end_attempt(&mut self, c: usize) -> Option<()> {
        let (ttl, looks) = (self.bounds.ttl, self.on(Rule::LookAgain));
        let client = self.client(c);
        if client.expired {
            return self.over(c);
        }
        let Client { attempt, doubtful, late, mut again, .. } = *client;
        if doubtful && looks {
            again = Some(attempt);
        }
        *client = Client { attempt, late, again, ..Client::idle(ttl) };
        Some(())
    }

    /// Repeated until the request in doubt has been applied or lost.
    fn look_again(&mut self, c: usize) -> Option<()> {
        let client = self.client(c);
        if client.late.is_some() {
            return None;
        }
        let attempt = client.again.take()?;
        let before = self.state.queue.len();
        self.remove(|key| key.client == c && key.attempt <= attempt);
        self.state.cleaned |= self.state.queue.len() < before;
        Some(())
    }

    fn remove(&mut self, gone: impl Fn(&Key) -> bool) {
        self.state.queue.retain(|key| !gone(key));
    }

    // The waiter.

    fn watch(&mut self, c: usize) -> Option<()> {
        let stage = self.state.clients[c].stage.watches(|rule| self.on(rule))?;
        self.client(c).stage = stage;
        Some(())
    }

    fn catch_up(&mut self, c: usize) -> Option<()> {
        let (keys, client) = (self.state.keys(), self.client(c));
        let own = client.stage.wait()?.own;
        client.stage = client.stage.catches_up(keys.up_to(own))?;
        Some(())
    }

    fn look(&mut self, c: usize) -> Option<()> {
        let turn = self.state.clients[c].stage.looks(|rule| self.on(rule))?;
        self.turn(c, turn)
    }

    fn recheck(&mut self, c: usize) -> Option<()> {
        let turn = self.state.clients[c].stage.rechecks()?;
        self.turn(c, turn)
    }

    fn turn(&mut self, c: usize, turn: Turn<Keys>) -> Option<()> {
        match turn {
            Turn::Waits(stage) => self.client(c).stage = stage,
            Turn::Granted(wait) => self.grant(c, wait, true)?,
            Turn::Evicted(own) => self.evicted(c, own)?,
        }
        Some(())
    }

    fn evicted(&mut self, c: usize, own: u8) -> Option<()> {
        if self.state.keys().has(own) {
            self.state.broken = Some(Broken::FalseAlarm);
            return Some(());
        }
        self.end_attempt(c)
    }

    // The session.

    /// Sends and applies a keepalive. An earlier one that is under way no longer counts.
    fn renew(&mut self, c: usize) -> Option<()> {
        let ttl = self.bounds.ttl;
        let client = self.client(c);
        if client.expired || client.lease == ttl {
            return None;
        }
        (client.lease, client.renewing) = (ttl, true);
        self.spend(|left| &mut left.renewals)
    }

    fn renewal_answered(&mut self, c: usize) -> Option<()> {
        let (ttl, from_sending) = (self.bounds.ttl, self.on(Rule::FromSending));
        let client = self.client(c);
        if !std::mem::take(&mut client.renewing) {
            return None;
        }
        // The granted time has been running since then.
        client.deadline = if from_sending { client.lease } else { ttl };
        Some(())
    }

    /// Notifies a holder that its key was deleted.
    fn eviction_noticed(&mut self, c: usize) -> Option<()> {
        let Stage::Holding { own, .. } = self.state.clients[c].stage else { return None };
        if self.state.keys().has(own) || self.state.clients[c].expired {
            return None;
        }
        self.end_attempt(c)
    }

    /// A waiter learns that its session has ended, or gives up after its deadline.
    fn give_up(&mut self, c: usize) -> Option<()> {
        let client = &self.state.clients[c];
        let over = client.expired || client.deadline == 0;
        if !over || self.state.holds(c) {
            return None;
        }
        self.over(c)
    }

    fn over(&mut self, c: usize) -> Option<()> {
        let client = self.client(c);
        let Client { expired, late, .. } = *client;
        *client = Client { stage: Stage::Over, attempt: 1, expired, late, ..Client::idle(0) };
        Some(())
    }

    /// The store ends the session, at its expiry or later.
    fn expire(&mut self, c: usize) -> Option<()> {
        let client = self.client(c);
        if client.expired || !waiter::may_expire(client.lease.into()) {
            return None;
        }
        (client.expired, client.late, client.again) = (true, None, None);
        self.remove(|key| key.client == c);
        Some(())
    }

    // Other parties.

    fn delete(&mut self, n: u8) -> Option<()> {
        self.spend(|left| &mut left.deletes)?;
        let client = self.state.queue.iter().find(|key| key.n == n)?.client;
        self.remove(|key| key.n == n);
        if self.state.holds(client) && self.state.clients[client].own() == Some(n) {
            self.client(client).evicted_while_held = true;
        }
        Some(())
    }

    /// Time passes equally for all. Messages under way may stay there for any time.
    fn tick(&mut self) -> Option<()> {
        let mut passes = false;
        for c in 0..CLIENTS {
            let client = self.client(c);
            if client.stage == Stage::Idle || client.lease + client.deadline == 0 {
                continue;
            }
            passes = true;
            client.lease = client.lease.saturating_sub(1);
            client.deadline = client.deadline.saturating_sub(1);
            let left = client.deadline.into();
            if self.state.holds(c) && waiter::has_lapsed(left, |rule| self.on(rule)) {
                self.over(c)?;
            }
        }
        passes.then_some(())
    }
}
