//! What happens to a request on its way to the store and to its reply.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::{
    backend::{Event, error::StoreError},
    history::{Fate, What},
    lost::LostReason,
    server::{Contract, Server, Watching},
    world::World,
};

/// The store's error for a client without the right to do something.
pub(crate) const DENIED: &str = "no right to do that";

pub(crate) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// A request to the store, run on a server's view of that moment.
pub(crate) type Request<T> = Box<dyn FnOnce(&mut Server) -> T + Send>;

/// A request on its way.
pub(crate) struct Letter<T> {
    pub(crate) session: u64,
    pub(crate) process: usize,
    pub(crate) name: &'static str,
    /// Any server may reply, however far it lags behind.
    pub(crate) local: bool,
    pub(crate) request: Request<T>,
    pub(crate) answer: Answer<T>,
}

/// Of 1,000 joins whose connection was lost, how many are served later.
const MOVED_BACK: u32 = 200;

impl World {
    fn fate(&mut self) -> Fate {
        if !self.chance(self.faults) {
            return Fate::Answered;
        }
        let contract = self.server.contract;
        match self.dice.u32(..16) {
            0..2 => Fate::Slow,
            2..4 => Fate::RequestLost,
            4..7 => Fate::ReplyLost,
            7..10 if contract == Contract::Etcd => Fate::AppliedLate,
            7..10 => Fate::Disconnected,
            10..12 => Fate::RefusedBefore,
            12..14 => Fate::FailedAfter,
            14 if self.dice.u32(..20) == 0 => Fate::Denied,
            14 if self.dice.u32(..20) == 0 => Fate::Fatal,
            _ => Fate::Slow,
        }
    }

    /// How long a request is delayed: mostly less than a second, without a bound that a client
    /// could know. One in 34 takes longer than 13 s, one in 380 longer than ten minutes.
    pub(crate) fn delay(&mut self) -> Duration {
        let mut longest = 100;
        while longest < 1_600_000 && self.dice.u32(..3) > 0 {
            longest *= 2;
        }
        Duration::from_millis(self.dice.u64(1..longest))
    }

    /// Sends a request.
    pub(crate) fn send<T: Send + 'static>(&mut self, letter: Letter<T>) {
        if self.processes[letter.process].dead {
            return;
        }
        let denied = self.processes[letter.process].denied > self.now() && letter.name == "leave";
        let fate = if denied { Fate::Denied } else { self.fate() };
        self.note(letter.process, What::Asked(letter.name, fate));
        let looks = matches!(letter.name, "own_keys" | "standing");
        if looks && !matches!(fate, Fate::Answered | Fate::Slow) {
            self.processes[letter.process].unanswered = self.now();
        }
        let certain = matches!(fate, Fate::Answered | Fate::RefusedBefore | Fate::Denied);
        if !certain {
            self.doubt(letter.name);
        }
        let (way, now) = (self.latency(), self.now());
        let long = Duration::from_millis(self.dice.u64(1..400));
        match fate {
            Fate::RefusedBefore => {
                self.fail(letter, way, StoreError::Unavailable("refused".into()))
            }
            Fate::Denied => self.fail(letter, way, StoreError::Denied(DENIED.into())),
            Fate::Fatal => {
                let error = StoreError::Fatal { operation: "a request", source: "refused".into() };
                self.fail(letter, way, error);
            }
            // The client waits for its full timeout.
            Fate::RequestLost if self.server.contract == Contract::Etcd => {
                self.scheduler.after(long * 20, move |_| drop(letter));
            }
            Fate::RequestLost | Fate::Disconnected => {
                self.disconnect(letter.session);
                self.arrive(letter, now + way, fate);
            }
            // Later requests wait behind it until the client gives the connection up.
            Fate::Slow
                if self.server.contract == Contract::ZooKeeper && self.dice.u32(..8) == 0 =>
            {
                let at = now + way + self.delay();
                self.arrive(letter, at, fate);
            }
            Fate::Slow => self.arrive(letter, now + way + long, fate),
            Fate::AppliedLate => {
                let at = now + self.delay();
                self.arrive(letter, at, fate);
            }
            Fate::Answered | Fate::ReplyLost | Fate::FailedAfter => {
                self.arrive(letter, now + way, fate);
            }
        }
    }

    /// Records a request whose reply does not arrive or does not show the outcome.
    fn doubt(&mut self, name: &str) {
        self.doubtful += u64::from(name == "leave");
    }

    fn fail<T: Send + 'static>(&mut self, letter: Letter<T>, after: Duration, error: StoreError) {
        self.scheduler.after(after, move |_| drop(letter.answer.send(Err(error))));
    }

    /// Lets a request arrive at a time, unless it is delayed or its connection is lost.
    fn arrive<T: Send + 'static>(&mut self, letter: Letter<T>, at: Duration, fate: Fate) {
        let blocked = self.processes[letter.process].blocked;
        let at = if blocked > self.now() { at.max(blocked + self.latency()) } else { at };
        let now = self.now();
        match self.server.contract {
            Contract::Etcd | Contract::Redis => {
                // A connection that was silent for long may be given up with the requests on it.
                if blocked > now && self.dice.bool() {
                    self.doubt(letter.name);
                    self.scheduler.after(blocked - now + self.request_timeout, |_| drop(letter));
                    return;
                }
                self.latest = self.latest.max(at);
                self.scheduler.after(at - now, move |world| world.serve(letter, fate));
            }
            Contract::ZooKeeper => {
                let session = self.server.sessions.get_mut(&letter.session);
                let connection = session.as_ref().map(|session| session.connection);
                let at = session.map_or(at, |session| {
                    session.applied = session.applied.max(at);
                    session.applied
                });
                self.scheduler.after(at - now, move |world| world.come(letter, connection, fate));
            }
        }
    }

    /// Lets a request reach its server, if the connection on which it was sent still exists.
    fn come<T: Send + 'static>(&mut self, letter: Letter<T>, connection: Option<u64>, fate: Fate) {
        let cut = self.cut_off(letter.session).saturating_sub(self.now());
        let session = self.server.sessions.get_mut(&letter.session);
        match session.map(|session| (session.connection, session.replica, &mut session.kept)) {
            // It is kept until there is a connection.
            Some((now, None, kept)) if connection == Some(now) => {
                kept.0.push(Box::new(move |world| world.come(letter, connection, fate)));
            }
            // Requests under way are lost with their connection. A request that a cut-off server
            // forwards after its client has moved is refused (`SessionMovedException`), unless a
            // request to connect by the same server is as late.
            Some((now, ..)) if connection != Some(now) => {
                self.doubt(letter.name);
                let error = StoreError::Unknown("the connection was lost".into());
                drop(letter.answer.send(Err(error)));
                if letter.name == "enqueue" && self.chance(MOVED_BACK) {
                    let late = Letter { answer: oneshot::channel().0, ..letter };
                    let held_up = self.delay();
                    self.latest = self.latest.max(self.now() + held_up);
                    self.scheduler.after(held_up, move |world| world.serve(late, fate));
                }
            }
            Some(_) if !letter.local && !cut.is_zero() => {
                self.scheduler.after(cut, move |world| world.come(letter, connection, fate));
            }
            _ => self.serve(letter, fate),
        }
    }

    /// Lets the store execute a request and reply.
    fn serve<T: Send + 'static>(&mut self, letter: Letter<T>, fate: Fate) {
        let cut = self.cut_off(letter.session);
        if cut > self.now() && !letter.local {
            // The leader cannot be reached from here.
            self.scheduler.after(cut - self.now(), move |world| world.arrive_again(letter, fate));
            return;
        }
        let Letter { session, process, name, local, request, answer } = letter;
        if !self.server.sessions.contains_key(&session) {
            self.note(process, What::Served(name, 0));
            let way = self.latency();
            let gone = StoreError::SessionGone(LostReason::SessionExpired);
            self.scheduler.after(way, move |_| drop(answer.send(Err(gone))));
            return;
        }
        let before = self.server.now.revision;
        self.server.time = self.now();
        let result = request(&mut self.server);
        self.touch(session);
        let revision = self.server.now.revision;
        self.note(process, What::Served(name, revision));
        if revision > before {
            self.changed();
        }
        if !local {
            // A server knows what the leader has replied.
            self.catch_up(session, revision);
        }
        let seen_revision = self.server.view_of(session).revision;
        match fate {
            Fate::ReplyLost if self.server.contract == Contract::ZooKeeper => {
                self.disconnect(session);
                let way = self.latency();
                let lost = StoreError::Unknown("the connection was lost".into());
                self.scheduler.after(way, move |_| drop(answer.send(Err(lost))));
            }
            Fate::ReplyLost => {
                let silent = self.request_timeout * 2;
                self.scheduler.after(silent, move |_| drop(answer));
            }
            Fate::FailedAfter | Fate::AppliedLate => {
                let way = self.latency();
                let error = StoreError::Unknown("failed on its way".into());
                self.scheduler.after(way, move |_| drop(answer.send(Err(error))));
            }
            _ => self.reply(session, process, seen_revision, move || drop(answer.send(Ok(result)))),
        }
    }

    fn arrive_again<T: Send + 'static>(&mut self, letter: Letter<T>, fate: Fate) {
        let at = self.now() + self.latency();
        self.arrive(letter, at, fate);
    }

    /// Delivers a reply or an event to its client: in order on one connection, and not at all if
    /// the connection is lost.
    fn reply(
        &mut self,
        session: u64,
        process: usize,
        seen_revision: u64,
        deliver: impl FnOnce() + 'static,
    ) {
        let now = self.now();
        let at = (now + self.latency()).max(self.processes[process].blocked);
        let record = self.server.sessions.get_mut(&session);
        let ordered = self.server.contract == Contract::ZooKeeper;
        let connection = record.as_ref().map(|session| session.connection);
        let at = record.filter(|_| ordered).map_or(at, |session| {
            session.replied = session.replied.max(at);
            session.replied
        });
        self.scheduler.after(at - now, move |world| {
            let now = world.now();
            if let Some(session) = world.server.sessions.get_mut(&session) {
                if ordered && connection != Some(session.connection) {
                    return;
                }
                session.seen_revision = session.seen_revision.max(seen_revision);
                session.answered = now;
            }
            deliver();
        });
    }

    /// Notifies watchers of a change, each with a delay.
    pub(crate) fn changed(&mut self) {
        let to = self.server.now.revision;
        self.note_first();
        match self.server.contract {
            Contract::Etcd | Contract::Redis => self.notify(None, to),
            Contract::ZooKeeper => {
                for replica in 0..3 {
                    let lag = self.latency() + self.cut[replica].saturating_sub(self.now());
                    self.scheduler.after(lag, move |world| world.advance(replica, to));
                }
            }
        }
        self.server.forget(400);
        if self.dice.u32(..4) == 0 {
            self.server.remove_empty_dirs();
        }
    }

    fn advance(&mut self, replica: usize, to: u64) {
        if self.server.replicas[replica] < to {
            self.server.replicas[replica] = to;
            self.notify(Some(replica), to);
        }
    }

    fn catch_up(&mut self, session: u64, to: u64) {
        let replica = self.server.sessions.get(&session).and_then(|session| session.replica);
        if let Some(replica) = replica {
            self.advance(replica, to);
        }
    }

    pub(crate) fn notify(&mut self, replica: Option<usize>, to: u64) {
        for (watching, event) in self.server.struck(replica, to) {
            let Watching { session, sender, .. } = watching;
            let Some(process) = self.server.sessions.get(&session).map(|session| session.process)
            else {
                continue;
            };
            if self.chance(self.faults / 4) {
                // The event is lost: its watcher is not notified.
                self.note(process, What::EventLost);
                self.lost_events.push(sender);
                continue;
            }
            self.note(process, What::Notified(event == Event::Deleted));
            self.reply(session, process, to, move || _ = sender.send(event));
        }
    }
}
