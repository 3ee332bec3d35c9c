//! The effect of each step.

use super::{
    model::{Bounds, Failover, Step},
    rules::Rule,
    state::{CLIENTS, Client, Data, Entry, Proof, Role, Session, Stage},
};
use crate::check::Next;

impl Next<'_, Failover> {
    fn client(&mut self, client: usize) -> &mut Client {
        &mut self.state.clients[client]
    }

    fn data(&mut self, server: usize) -> &mut Data {
        &mut self.state.servers[server].data
    }

    /// Returns `None` if the step is not possible in this state.
    pub(super) fn take(&mut self, step: Step) -> Option<()> {
        self.make(step)?;
        for c in 0..CLIENTS {
            // Confirming it later is never worse if the time counts from sending.
            if self.on(Rule::SentSince) {
                let _none = self.proved(c);
            }
            let rests = self.state.clients[c].stage == Stage::Idle;
            if rests && self.state.left.attempts == 0 {
                self.over(c);
            }
        }
        Some(())
    }

    fn make(&mut self, step: Step) -> Option<()> {
        match step {
            Step::Tick => self.tick(),
            Step::Open(c, s) => self.open(c, s),
            Step::Move(c, s) => self.connect(c, s),
            Step::Join(c) => self.join(c),
            Step::Look(c) => self.look(c),
            Step::Beat(c) => self.beat(c),
            Step::Proved(c) => self.proved(c),
            Step::Leave(c) => self.leave(c),
            Step::Replicate(s) => self.replicate(s),
            Step::Promote(s) => self.promote(s),
            Step::Follow(s, to) => self.follow(s, to),
            Step::Wipe(s) => self.wipe(s),
            Step::Forget(s) => self.forget(s),
        }
    }

    fn spend(&mut self, what: fn(&mut Bounds) -> &mut u8) -> Option<()> {
        let left = what(&mut self.state.left);
        *left = left.checked_sub(1)?;
        Some(())
    }

    /// Returns a client's TTL; without `OneTtl` the second client's is shorter.
    fn ttl(&self, client: usize) -> u8 {
        let shorter = client > 0 && !self.on(Rule::OneTtl);
        self.bounds.ttl - u8::from(shorter)
    }

    // Scripts on the server.

    /// Introduces a client to the server, with its past releases: `recognize` in `server.lua`.
    fn hello(&mut self, c: usize, s: usize) {
        let (ttl, given) = (self.ttl(c), self.state.given);
        let quarantine = self.on(Rule::Quarantine);
        let cut = u8::from(!self.on(Rule::WholeTtl));
        let (young, promoted) = (self.on(Rule::YoungEmpty), self.on(Rule::PromotedEmpty));
        let clock = self.on(Rule::ClockTokens);
        let ttls = [self.ttl(0), self.ttl(1)];
        let released = self.state.clients[c].released;
        let server = &mut self.state.servers[s];
        let data = &mut server.data;
        data.queue.retain(|entry| entry.client != c || released & 1 << entry.ticket == 0);
        if data.known == server.id {
            return;
        }
        if data.known == 0 {
            let lost = server.uptime < ttl && young || server.promoted && promoted;
            data.quarantine = if lost { ttl } else { 0 };
        } else {
            data.quarantine = if quarantine { data.longest - cut.min(data.longest) } else { 0 };
            for (session, ttl) in data.sessions.iter_mut().zip(ttls) {
                if let Some(session) = session {
                    session.lease = ttl;
                }
            }
        }
        if clock {
            data.last = data.last.max(given);
        }
        data.known = server.id;
    }

    /// The head of each script. Returns `None` without a connection to a primary, and `false` if
    /// the session has ended.
    fn enter(&mut self, c: usize) -> Option<(usize, bool)> {
        let s = self.state.clients[c].at.filter(|s| self.state.is_primary(*s))?;
        if self.on(Rule::EachTime) {
            self.hello(c, s);
        }
        let client = &self.state.clients[c];
        let there = match &self.state.servers[s].data.sessions[c] {
            None => false,
            Some(session) if session.joins < client.joins => {
                self.state.noticed = true;
                !self.on(Rule::LostWrites)
            }
            Some(_) => true,
        };
        if !there {
            self.over(c);
        }
        Some((s, there))
    }

    fn over(&mut self, c: usize) {
        let at = Client {
            stage: Stage::Over,
            at: None,
            deadline: 0,
            proof: None,
            ..self.state.clients[c]
        };
        *self.client(c) = Client { released: 0, joins: 0, ..at };
    }

    // The client.

    /// B starts again, with a new session.
    fn open(&mut self, c: usize, s: usize) -> Option<()> {
        self.spend(|left| &mut left.sessions)?;
        if c == 0 || !self.state.is_primary(s) || self.state.clients[c].stage != Stage::Over {
            return None;
        }
        self.hello(c, s);
        let ttl = self.ttl(c);
        let data = self.data(s);
        data.end(c);
        data.sessions[c] = Some(Session { lease: ttl, joins: 0 });
        data.longest = data.longest.max(ttl);
        self.client(c).stage = Stage::Idle;
        self.client(c).at = Some(s);
        self.send(c, s);
        Some(())
    }

    fn connect(&mut self, c: usize, s: usize) -> Option<()> {
        if !self.state.is_primary(s) || self.state.clients[c].at == Some(s) {
            return None;
        }
        self.hello(c, s);
        let same = self.on(Rule::SameServer);
        let client = self.client(c);
        (client.at, client.proof) = (Some(s), None);
        if let Stage::Unblocked { ticket, .. } = client.stage
            && same
        {
            client.stage = Stage::Waiting { ticket };
        }
        Some(())
    }

    fn join(&mut self, c: usize) -> Option<()> {
        self.spend(|left| &mut left.attempts)?;
        let (s, there) = self.enter(c)?;
        if !there {
            return Some(());
        }
        self.client(c).joins += 1;
        let ticket = self.state.clients[c].joins;
        let data = self.data(s);
        data.last += 1;
        let token = data.last;
        data.queue.push(Entry { client: c, ticket, token });
        if let Some(session) = &mut data.sessions[c] {
            session.joins = ticket;
        }
        self.state.given = self.state.given.max(token);
        self.client(c).stage = Stage::Waiting { ticket };
        Some(())
    }

    fn look(&mut self, c: usize) -> Option<()> {
        let (Stage::Waiting { ticket } | Stage::Unblocked { ticket, .. }) =
            self.state.clients[c].stage
        else {
            return None;
        };
        let (s, there) = self.enter(c)?;
        if !there {
            return Some(());
        }
        let data = self.data(s);
        let own = |entry: &Entry| entry.client == c && entry.ticket == ticket;
        if data.quarantine > 0 {
            return Some(());
        }
        for other in 0..CLIENTS {
            if other != c && data.sessions[other].is_some_and(|session| session.lease == 0) {
                data.end(other);
            }
        }
        match data.queue.first() {
            Some(entry) if own(entry) => {
                let token = entry.token;
                let by = self.state.servers[s].id;
                self.client(c).stage = Stage::Unblocked { ticket, token, by };
                if !self.on(Rule::AckedGrants) {
                    self.grant(c);
                }
            }
            _ if !data.queue.iter().any(own) => self.client(c).stage = Stage::Idle,
            _ => {}
        }
        Some(())
    }

    fn grant(&mut self, c: usize) {
        let client = self.client(c);
        if let Stage::Unblocked { ticket, token, by } = client.stage
            && client.deadline > 0
        {
            client.stage = Stage::Holding { ticket, token, by };
            self.state.falling |= token <= self.state.granted;
            self.state.granted = self.state.granted.max(token);
        }
    }

    fn beat(&mut self, c: usize) -> Option<()> {
        self.spend(|left| &mut left.beats)?;
        let (s, there) = self.enter(c)?;
        if !there {
            return Some(());
        }
        let ttl = self.ttl(c);
        if let Some(session) = &mut self.data(s).sessions[c] {
            session.lease = ttl;
        }
        self.send(c, s);
        Some(())
    }

    /// Sends a keepalive to the replicas.
    fn send(&mut self, c: usize, s: usize) {
        let (left, id) = (self.ttl(c), self.state.servers[s].id);
        let counts_now = !self.on(Rule::AckedBeats);
        let client = self.client(c);
        let after = matches!(client.stage, Stage::Unblocked { .. });
        client.proof = Some(Proof { at: s, id, left, acked: 0, confirmed: false, after });
        if counts_now {
            client.deadline = left;
        }
    }

    fn proved(&mut self, c: usize) -> Option<()> {
        let proof = self.state.clients[c].proof.filter(|proof| proof.confirmed)?;
        let (same, since) = (self.on(Rule::SameServer), self.on(Rule::SentSince));
        let ttl = self.ttl(c);
        let client = self.client(c);
        let deadline = if since { proof.left } else { ttl };
        client.deadline = client.deadline.max(deadline);
        client.proof = None;
        match client.stage {
            Stage::Unblocked { by, .. } if proof.after && (by == proof.id || !same) => {
                self.grant(c)
            }
            Stage::Holding { by, .. } => self.state.kept |= by != proof.id,
            _ => {}
        }
        Some(())
    }

    /// Gives up or releases; a release that no server receives is sent to the next one.
    fn leave(&mut self, c: usize) -> Option<()> {
        let (Stage::Waiting { ticket }
        | Stage::Unblocked { ticket, .. }
        | Stage::Holding { ticket, .. }) = self.state.clients[c].stage
        else {
            return None;
        };
        let at = self.state.clients[c].at.filter(|s| self.state.is_primary(*s));
        if let Some(s) = at {
            self.data(s).queue.retain(|entry| entry.client != c || entry.ticket != ticket);
        }
        let client = self.client(c);
        client.released |= 1 << ticket;
        client.stage = Stage::Idle;
        Some(())
    }

    // The servers.

    /// A replica catches up.
    fn replicate(&mut self, s: usize) -> Option<()> {
        let Role::ReplicaOf(primary) = self.state.servers[s].role else { return None };
        if !self.state.is_primary(primary) {
            return None;
        }
        let wanted = self.bounds.servers as u32 - 1 - u32::from(!self.on(Rule::AllReplicas));
        self.state.servers[s].data = self.state.servers[primary].data.clone();
        for proof in self.state.clients.iter_mut().filter_map(|client| client.proof.as_mut()) {
            if proof.at == primary {
                proof.acked |= 1 << s;
                proof.confirmed |= proof.acked.count_ones() >= wanted;
            }
        }
        Some(())
    }

    fn promote(&mut self, s: usize) -> Option<()> {
        let Role::ReplicaOf(_) = self.state.servers[s].role else { return None };
        self.spend(|left| &mut left.promotions)?;
        self.become_another(s);
        let server = &mut self.state.servers[s];
        (server.role, server.promoted) = (Role::Primary, true);
        Some(())
    }

    /// Follows another server with a full copy of its data, after deleting the own data.
    fn follow(&mut self, s: usize, to: usize) -> Option<()> {
        if s == to || !self.state.is_primary(to) {
            return None;
        }
        self.spend(|left| &mut left.follows)?;
        self.cut_off(s);
        let server = &mut self.state.servers[s];
        (server.role, server.data) = (Role::ReplicaOf(to), Data::default());
        Some(())
    }

    fn wipe(&mut self, s: usize) -> Option<()> {
        self.spend(|left| &mut left.wipes)?;
        self.restart(s, Data::default());
        Some(())
    }

    fn forget(&mut self, s: usize) -> Option<()> {
        self.spend(|left| &mut left.forgets)?;
        self.restart(s, Data::before(self.bounds.ttl));
        Some(())
    }

    fn restart(&mut self, s: usize, data: Data) {
        self.cut_off(s);
        for client in &mut self.state.clients {
            client.at = client.at.filter(|at| *at != s);
        }
        self.become_another(s);
        let server = &mut self.state.servers[s];
        (server.data, server.uptime, server.promoted) = (data, 0, false);
    }

    /// Gives the server a new identity; its earlier acknowledgements no longer count.
    fn become_another(&mut self, s: usize) {
        self.state.ids += 1;
        self.state.servers[s].id = self.state.ids;
        for proof in self.state.clients.iter_mut().filter_map(|client| client.proof.as_mut()) {
            proof.acked &= !(1 << s);
        }
    }

    /// Stops new confirmations from this server. Earlier ones may still be on their way.
    fn cut_off(&mut self, s: usize) {
        for client in &mut self.state.clients {
            client.proof = client.proof.filter(|proof| proof.at != s || proof.confirmed);
        }
    }

    /// Time passes equally for all.
    fn tick(&mut self) -> Option<()> {
        let longest = self.bounds.ttl;
        let mut passes = false;
        for server in self.state.servers.iter_mut().filter(|server| server.role != Role::Absent) {
            passes |= server.data.tick() || server.uptime < longest;
            server.uptime = (server.uptime + 1).min(longest);
        }
        for c in 0..CLIENTS {
            let client = self.client(c);
            passes |= client.deadline > 0;
            client.deadline = client.deadline.saturating_sub(1);
            if let Some(proof) = &mut client.proof {
                passes |= proof.left > 0;
                proof.left = proof.left.saturating_sub(1);
            }
            if client.deadline == 0 && matches!(client.stage, Stage::Holding { .. }) {
                self.over(c);
            }
        }
        passes.then_some(())
    }
}
