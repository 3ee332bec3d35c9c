//! The effect of each step.

use super::{
    model::{Bounds, Redlock, Step},
    rules::Rule,
    state::{Client, Key, Late, NODES, Node, Seen, Stage},
};
use crate::check::Next;

impl Next<'_, Redlock> {
    fn client(&mut self, client: usize) -> &mut Client {
        &mut self.state.clients[client]
    }

    fn seen(&mut self, c: usize, n: usize) -> &mut Seen {
        &mut self.state.nodes[n].seen[c]
    }

    /// Returns `None` if the step is not possible in this state.
    pub(super) fn take(&mut self, step: Step) -> Option<()> {
        match step {
            Step::Tick => self.tick(),
            Step::Begin(c) => self.begin(c),
            Step::Take(c, n) => self.ask(c, n, true),
            Step::TakeUnheard(c, n) => self.fault().and_then(|()| self.ask(c, n, false)),
            Step::TakeLate(c, n) => self.take_late(c, n),
            Step::Propose(c) => self.propose(c),
            Step::Raise(c, n) => self.raise(c, n, true),
            Step::RaiseUnheard(c, n) => self.fault().and_then(|()| self.raise(c, n, false)),
            Step::Grant(c) => self.grant(c),
            Step::GiveUp(c) => self.give_up(c),
            Step::Unlock(c) => self.leave(c),
            Step::Renew(c) => self.renew(c),
            Step::Extend(c, n) => self.extend(c, n, true),
            Step::ExtendUnheard(c, n) => self.fault().and_then(|()| self.extend(c, n, false)),
            Step::ExtendLate(c, n) => self.extend_late(c, n),
            Step::Release(c, n) => self.release(c, n),
            Step::ApplyLate(n) => self.apply_late(n),
            Step::DropLate(n) => self.state.nodes[n].late.take().map(|_| ()),
            Step::End(n) => self.end(n),
            Step::Restart(n) => self.restart(n),
            Step::Jump(n) => self.jump(n),
        }?;
        self.state.nodes.sort_unstable();
        Some(())
    }

    fn spend(&mut self, what: fn(&mut Bounds) -> &mut u8) -> Option<()> {
        let left = what(&mut self.state.left);
        *left = left.checked_sub(1)?;
        Some(())
    }

    fn fault(&mut self) -> Option<()> {
        self.spend(|left| &mut left.faults)
    }

    fn ttl(&self) -> u8 {
        self.bounds.ttl
    }

    fn majority(&self) -> usize {
        NODES / 2 + usize::from(self.on(Rule::Majority))
    }

    /// Returns the ticks for which a lock is certainly kept, from the request on.
    fn valid(&self) -> u8 {
        self.ttl() - u8::from(self.on(Rule::Rates))
    }

    // The attempt.

    fn begin(&mut self, c: usize) -> Option<()> {
        let turn = c == 0 || self.state.clients[c - 1].attempt > 0;
        let free = self.state.nodes.iter().all(|node| !node.seen[c].releasing);
        self.spend(|left| &mut left.attempts)?;
        let deadline = self.valid();
        let client = self.client(c);
        client.attempt += 1;
        (client.stage, client.deadline) = (Stage::Taking { highest: 0 }, deadline);
        self.new_phase(c);
        (turn && free).then_some(())
    }

    fn new_phase(&mut self, c: usize) {
        for node in &mut self.state.nodes {
            (node.seen[c].asked, node.seen[c].yes) = (false, false);
        }
    }

    fn ask(&mut self, c: usize, n: usize, heard: bool) -> Option<()> {
        let Stage::Taking { highest } = self.state.clients[c].stage else { return None };
        if std::mem::replace(&mut self.seen(c, n).asked, true) {
            return None;
        }
        let (key, given, ttl) = (self.state.key(c), self.state.given, self.ttl());
        let counts = !self.on(Rule::ReadFirst);
        // Only in histories with a restart are counters insufficient.
        let clock = if self.bounds.restarts > 0 && self.on(Rule::Clocks) { given } else { 0 };
        let node = &mut self.state.nodes[n];
        node.take(key, ttl);
        if counts && node.value == Some(key) {
            node.counter += 1;
        }
        if heard {
            node.seen[c].yes = node.value == Some(key) && node.spoiled == 0;
            let reported = node.counter.max(clock);
            self.client(c).stage = Stage::Taking { highest: highest.max(reported) };
        }
        Some(())
    }

    fn take_late(&mut self, c: usize, n: usize) -> Option<()> {
        self.fault()?;
        let key = self.state.key(c);
        let node = &mut self.state.nodes[n];
        let asked = std::mem::replace(&mut node.seen[c].asked, true);
        let other = node.late.replace(Late::Take(key));
        (!asked && other.is_none()).then_some(())
    }

    fn propose(&mut self, c: usize) -> Option<()> {
        let Stage::Taking { highest } = self.state.clients[c].stage else { return None };
        if self.yes(c) < self.majority() {
            return None;
        }
        let read = self.on(Rule::ReadFirst);
        let token = highest + u8::from(read);
        self.state.given = self.state.given.max(token);
        let raises = read && self.on(Rule::Raise);
        let stage = if raises { Stage::Raising { token } } else { Stage::Ready { token } };
        self.client(c).stage = stage;
        self.new_phase(c);
        Some(())
    }

    fn yes(&self, c: usize) -> usize {
        self.state.nodes.iter().filter(|node| node.seen[c].yes).count()
    }

    fn raise(&mut self, c: usize, n: usize, heard: bool) -> Option<()> {
        let Stage::Raising { token } = self.state.clients[c].stage else { return None };
        if std::mem::replace(&mut self.seen(c, n).asked, true) {
            return None;
        }
        let mine = Some(self.state.key(c));
        let any = !self.on(Rule::OnlyMine);
        let node = &mut self.state.nodes[n];
        let raised = (any || node.value == mine) && node.counter < token;
        if raised {
            node.counter = token;
        }
        node.seen[c].yes = heard && raised && node.spoiled == 0;
        if self.yes(c) >= self.majority() {
            self.client(c).stage = Stage::Ready { token };
            self.new_phase(c);
        }
        Some(())
    }

    fn grant(&mut self, c: usize) -> Option<()> {
        let Stage::Ready { token } = self.state.clients[c].stage else { return None };
        let in_time = self.state.clients[c].deadline > 0;
        if !in_time && self.on(Rule::InTime) {
            self.state.too_late = true;
            return self.give_up(c);
        }
        let client = self.client(c);
        (client.stage, client.deadline) = (Stage::Holding, client.deadline.max(1));
        self.state.falling |= token <= self.state.granted;
        self.state.granted = self.state.granted.max(token);
        Some(())
    }

    /// All nodes that may have the value are asked to delete it.
    fn give_up(&mut self, c: usize) -> Option<()> {
        let (all, key) = (self.on(Rule::ReleaseAll), self.state.key(c));
        for node in &mut self.state.nodes {
            node.seen[c].releasing = node.may_have(key) && (all || node.seen[c].yes);
        }
        self.over(c)
    }

    fn leave(&mut self, c: usize) -> Option<()> {
        let key = self.state.key(c);
        for node in &mut self.state.nodes {
            node.seen[c].releasing = node.may_have(key);
        }
        self.over(c)
    }

    fn over(&mut self, c: usize) -> Option<()> {
        let attempt = self.state.clients[c].attempt;
        *self.client(c) = Client { stage: Stage::Idle, attempt, deadline: 0, renewing: None };
        for node in &mut self.state.nodes {
            node.seen[c] = Seen { releasing: node.seen[c].releasing, ..Seen::default() };
        }
        Some(())
    }

    /// Asks until the node has replied.
    fn release(&mut self, c: usize, n: usize) -> Option<()> {
        let key = Some(self.state.key(c));
        let node = &mut self.state.nodes[n];
        if !std::mem::take(&mut node.seen[c].releasing) {
            return None;
        }
        if node.value == key {
            node.clear();
        }
        Some(())
    }

    // The holder.

    fn renew(&mut self, c: usize) -> Option<()> {
        self.spend(|left| &mut left.renewals)?;
        let (valid, one) = (self.valid(), self.on(Rule::OneSending));
        self.client(c).renewing = Some(valid);
        for node in &mut self.state.nodes {
            let seen = &mut node.seen[c];
            (seen.renewed, seen.kept) = (false, seen.kept && !one);
        }
        Some(())
    }

    fn extend(&mut self, c: usize, n: usize, heard: bool) -> Option<()> {
        let left = self.state.clients[c].renewing?;
        if std::mem::replace(&mut self.seen(c, n).renewed, true) {
            return None;
        }
        let (key, ttl) = (self.state.key(c), self.ttl());
        let node = &mut self.state.nodes[n];
        node.extend(key, ttl);
        node.seen[c].kept |= heard && node.value == Some(key) && node.spoiled == 0;
        let kept = self.state.nodes.iter().filter(|node| node.seen[c].kept).count();
        if kept >= self.majority() {
            let left = if self.on(Rule::SentSince) { left } else { self.valid() };
            let client = self.client(c);
            client.deadline = client.deadline.max(left);
        }
        Some(())
    }

    fn extend_late(&mut self, c: usize, n: usize) -> Option<()> {
        self.fault()?;
        self.state.clients[c].renewing?;
        let key = self.state.key(c);
        let node = &mut self.state.nodes[n];
        let renewed = std::mem::replace(&mut node.seen[c].renewed, true);
        let other = node.late.replace(Late::Renew(key));
        (!renewed && other.is_none()).then_some(())
    }

    // The nodes.

    fn apply_late(&mut self, n: usize) -> Option<()> {
        let ttl = self.ttl();
        let node = &mut self.state.nodes[n];
        let had = node.value;
        match node.late.take()? {
            Late::Take(key) => node.take(key, ttl),
            Late::Renew(key) => node.extend(key, ttl),
        }
        node.stray |= node.value != had;
        Some(())
    }

    /// The value expires by a clock that is as fast as allowed, or later.
    fn end(&mut self, n: usize) -> Option<()> {
        let node = &mut self.state.nodes[n];
        node.value.filter(|_| node.left <= 1)?;
        node.clear();
        Some(())
    }

    /// Connected clients notice.
    fn restart(&mut self, n: usize) -> Option<()> {
        self.spend(|left| &mut left.restarts)?;
        let noticed = self.on(Rule::Restarted);
        let Node { seen, .. } = self.state.nodes[n];
        let spoiled = if noticed { self.ttl() } else { 0 };
        self.state.nodes[n] = Node { spoiled, seen, ..Node::default() };
        Some(())
    }

    fn jump(&mut self, n: usize) -> Option<()> {
        self.spend(|left| &mut left.jumps)?;
        let spoiled = if self.on(Rule::ClockSet) { self.ttl() } else { 0 };
        let node = &mut self.state.nodes[n];
        node.clear();
        node.spoiled = node.spoiled.max(spoiled);
        Some(())
    }

    /// Time passes equally for all.
    fn tick(&mut self) -> Option<()> {
        let mut passes = false;
        let mut count = |left: &mut u8| {
            passes |= *left > 0;
            *left = left.saturating_sub(1);
        };
        for node in &mut self.state.nodes {
            count(&mut node.left);
            count(&mut node.spoiled);
        }
        for client in &mut self.state.clients {
            count(&mut client.deadline);
            if let Some(left) = &mut client.renewing {
                count(left);
            }
        }
        for c in 0..self.state.clients.len() {
            let client = self.state.clients[c];
            if client.deadline == 0 && client.stage == Stage::Holding {
                self.leave(c);
            }
        }
        passes.then_some(())
    }
}

impl Node {
    /// Returns `true` if the node may have this value. Other nodes have nothing to delete.
    fn may_have(&self, key: Key) -> bool {
        let late = matches!(self.late, Some(Late::Take(late) | Late::Renew(late)) if late == key);
        self.value == Some(key) || late
    }

    fn clear(&mut self) {
        (self.value, self.left, self.stray) = (None, 0, false);
    }

    /// Takes the node if it is free.
    fn take(&mut self, key: Key, ttl: u8) {
        if self.value.is_none() {
            (self.value, self.left, self.stray) = (Some(key), ttl, false);
        }
    }

    /// Extends the value. An expired value is taken again, unless the node may have lost other
    /// clients' values.
    fn extend(&mut self, key: Key, ttl: u8) {
        if self.value == Some(key) {
            self.left = ttl;
        } else if self.spoiled == 0 {
            self.take(key, ttl);
        }
    }
}
