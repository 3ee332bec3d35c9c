//! Connections: bytes on their way, and what happens to them.

use std::{
    collections::VecDeque,
    task::{Poll, Waker},
    time::Duration,
};

use distlock_redis_model::Requests;
use tokio::io::ReadBuf;

use crate::{
    history::{Fate, What},
    server::SessionRecord,
    world::World,
};

/// A connection, seen from both ends.
#[derive(Debug, Default)]
pub(crate) struct Link {
    process: usize,
    /// The model's end; `None` once the server has closed it.
    end: Option<u64>,
    requests: Requests,
    /// When the last bytes sent, and the last reply, arrive.
    arrives: Duration,
    replies: Duration,
    /// It is about to be lost.
    doomed: bool,
    /// No bytes pass, and neither end is notified.
    silent: bool,
    inbox: VecDeque<u8>,
    /// The client knows that the connection has ended.
    closed: bool,
    reader: Option<Waker>,
}

impl World {
    /// Connects a client to the server, if the server runs.
    pub(crate) fn connect(&mut self, process: usize) -> Option<u64> {
        let now = self.now();
        let refused = self.processes[process].refused > now || self.chance(self.faults);
        let redis = self.redis();
        if refused || redis.down > now {
            return None;
        }
        let end = redis.model.connect();
        redis.numbers += 1;
        let number = redis.numbers;
        let link = Link { process, end: Some(end), arrives: now, replies: now, ..Link::default() };
        redis.links.insert(number, link);
        redis.ends.insert(end, number);
        self.note(process, What::Connected(number));
        Some(number)
    }

    /// Reads the bytes that have arrived for the client.
    pub(crate) fn read(&mut self, link: u64, waker: &Waker, into: &mut ReadBuf<'_>) -> Poll<()> {
        let Some(link) = self.redis().links.get_mut(&link) else { return Poll::Ready(()) };
        if link.inbox.is_empty() && !link.closed {
            link.reader = Some(waker.clone());
            return Poll::Pending;
        }
        let count = link.inbox.len().min(into.remaining());
        for byte in link.inbox.drain(..count) {
            into.put_slice(&[byte]);
        }
        Poll::Ready(())
    }

    fn fate_of_bytes(&mut self) -> Fate {
        if !self.chance(self.faults) {
            return Fate::Answered;
        }
        match self.dice.u32(..12) {
            0..4 => Fate::Slow,
            4..6 => Fate::RequestLost,
            6..8 => Fate::ReplyLost,
            8..10 => Fate::AppliedLate,
            _ => Fate::Disconnected,
        }
    }

    /// Sends bytes to the server; returns `false` if the connection has ended.
    pub(crate) fn write(&mut self, number: u64, bytes: &[u8]) -> bool {
        let fate = self.fate_of_bytes();
        let (now, way) = (self.now(), self.latency());
        let long = Duration::from_millis(self.dice.u64(1..400));
        let held_up = self.delay();
        let Some(link) = self.redis().links.get_mut(&number) else { return false };
        if link.closed {
            return false;
        }
        let (process, is_lost) = (link.process, link.end.is_none() || link.doomed);
        // Requests behind a delayed one may be given up, and sent again.
        let is_lost = is_lost || link.arrives > now + way;
        if is_lost {
            self.doubtful += 1;
        }
        if fate != Fate::Answered {
            self.doubtful += 1;
            self.processes[process].unanswered = now;
            self.note(process, What::Asked("bytes", fate));
        }
        let blocked = self.processes[process].blocked;
        let at = match fate {
            Fate::Slow => now + way + long,
            Fate::AppliedLate => now + way + held_up,
            _ => now + way,
        };
        let at = if blocked > now { at.max(blocked + way) } else { at };
        let Some(link) = self.redis().links.get_mut(&number) else { return false };
        link.arrives = link.arrives.max(at);
        link.doomed |= matches!(fate, Fate::Disconnected | Fate::RequestLost | Fate::ReplyLost);
        let at = link.arrives;
        match fate {
            // Neither end is notified.
            Fate::Disconnected => link.silent = true,
            Fate::RequestLost => self.cut_link(number),
            _ => {
                if fate == Fate::AppliedLate {
                    self.latest = self.latest.max(at);
                }
                let bytes = bytes.to_vec();
                self.scheduler.after(at - now, move |world| world.arrive_at(number, bytes, fate));
            }
        }
        true
    }

    /// Lets bytes arrive at the server, unless its process stalls.
    fn arrive_at(&mut self, number: u64, bytes: Vec<u8>, fate: Fate) {
        let (now, paused) = (self.now(), self.redis().paused);
        if paused > now {
            let more = paused - now;
            self.scheduler.after(more, move |world| world.arrive_at(number, bytes, fate));
            return;
        }
        let redis = self.redis();
        redis.tick(now);
        let Some(link) = redis.links.get_mut(&number).filter(|link| !link.silent) else { return };
        link.requests.add(&bytes);
        let mut written = Vec::new();
        while let Some(more) = self.serve_next(number) {
            written.extend(more);
            self.mirror();
        }
        for (end, bytes) in written {
            let to = self.redis().ends.get(&end).copied();
            if let Some(to) = to.filter(|to| *to != number || fate != Fate::ReplyLost) {
                self.deliver(to, bytes);
            }
        }
        if fate == Fate::ReplyLost {
            self.cut_link(number);
        }
    }

    /// Executes the next request of a connection; returns its replies by client, or `None` without
    /// a request.
    fn serve_next(&mut self, number: u64) -> Option<Vec<(u64, Vec<u8>)>> {
        let redis = self.redis();
        let link = redis.links.get_mut(&number)?;
        let (end, process) = (link.end?, link.process);
        let request = link.requests.next_whole()?;
        let reply = redis.model.run(end, &request).map(|reply| (end, reply));
        let pushes = redis.model.take_pushes();
        let written = reply.into_iter().chain(pushes).map(|(to, reply)| {
            let mut bytes = Vec::new();
            reply.write(redis.model.is_newer(to), &mut bytes);
            (to, bytes)
        });
        let written = written.collect();
        self.note_served(process, &request);
        Some(written)
    }

    /// The session of a script is its client's session.
    fn note_served(&mut self, process: usize, request: &[Vec<u8>]) {
        let is_script = request.first().is_some_and(|name| name.starts_with(b"EVAL"));
        let session = request.get(7).map(|session| String::from_utf8_lossy(session));
        let session = session.and_then(|session| u64::from_str_radix(&session, 16).ok());
        match session.filter(|_| is_script) {
            Some(session) => {
                let (ttl, now) = (self.ttl, self.now());
                let new = || SessionRecord::of(process, ttl, now);
                self.server.sessions.entry(session).or_insert_with(new);
                let words = request.get(8..).unwrap_or_default();
                let words = words.iter().map(|word| String::from_utf8_lossy(word));
                let text = words.collect::<Vec<_>>().join(" ");
                self.note(process, What::Script(text.into()));
            }
            None => self.note(process, What::Script(String::new().into())),
        }
    }

    /// Sends a reply to a client.
    pub(super) fn deliver(&mut self, number: u64, bytes: Vec<u8>) {
        let (now, way) = (self.now(), self.latency());
        let lost = self.chance(self.faults / 8);
        let Some(link) = self.redis().links.get_mut(&number) else { return };
        let process = link.process;
        link.silent |= lost;
        link.doomed |= lost;
        if lost {
            self.doubtful += 1;
            self.processes[process].unanswered = now;
        }
        let Some(link) = self.redis().links.get_mut(&number) else { return };
        if link.silent {
            return;
        }
        let at = (now + way).max(self.processes[process].blocked);
        let Some(link) = self.redis().links.get_mut(&number) else { return };
        link.replies = link.replies.max(at);
        let at = link.replies;
        self.scheduler.after(at - now, move |world| {
            let Some(link) = world.redis().links.get_mut(&number) else { return };
            if !link.closed && !link.silent {
                link.inbox.extend(bytes);
                link.wake();
            }
        });
    }

    /// Ends a connection: the client notices later, or not at all if the connection is silent.
    pub(super) fn cut_link(&mut self, number: u64) {
        let (now, way) = (self.now(), self.latency());
        let redis = self.redis();
        let Some(link) = redis.links.get_mut(&number) else { return };
        let process = link.process;
        if let Some(end) = link.end.take() {
            redis.model.disconnect(end);
            redis.ends.remove(&end);
        }
        self.note(process, What::Disconnected);
        let at = (now + way).max(self.processes[process].blocked);
        self.scheduler.after(at - now, move |world| {
            let link = world.redis().links.get_mut(&number);
            if let Some(link) = link.filter(|link| !link.silent) {
                link.closed = true;
                link.wake();
            }
        });
    }

    /// Closes the client's end. Bytes already sent arrive first.
    pub(crate) fn hang_up(&mut self, number: u64) {
        let (now, way) = (self.now(), self.latency());
        let Some(redis) = &mut self.redis else { return };
        let Some(link) = redis.links.get_mut(&number) else { return };
        link.closed = true;
        let at = link.arrives.max(now + way);
        self.scheduler.after(at - now, move |world| {
            let redis = world.redis();
            if let Some(end) = redis.links.remove(&number).and_then(|link| link.end) {
                redis.model.disconnect(end);
                redis.ends.remove(&end);
            }
        });
    }
}

impl Link {
    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}
