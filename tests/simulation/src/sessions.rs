//! How servers and clients hear from each other, and when sessions expire.

use std::{collections::BTreeSet, time::Duration};

use tokio::sync::watch;

use crate::{
    history::What,
    server::{Contract, Kept, SessionRecord},
    trace,
    world::World,
};

impl World {
    /// Opens a session at a server that can be reached and can reach the leader.
    pub(crate) fn open_session(&mut self, process: usize) -> Option<(u64, watch::Receiver<bool>)> {
        let (now, replica) = (self.now(), self.dice.usize(..3));
        let cut = match self.server.contract {
            Contract::Etcd | Contract::Redis => self.cut[0],
            Contract::ZooKeeper => self.cut[0].max(self.cut[replica]),
        };
        if cut > now {
            return None;
        }
        let id = self.server.number();
        let (ended, end) = watch::channel(false);
        let record = SessionRecord {
            process,
            ttl: self.ttl,
            heard: now,
            touched: false,
            replica: Some(replica),
            connection: 0,
            answered: now,
            seen_revision: self.server.now.revision,
            applied: now,
            replied: now,
            kept: Kept::default(),
            closing: false,
            ended,
        };
        self.server.sessions.insert(id, record);
        self.note(process, What::Connected(id));
        self.look_at(id, self.ttl);
        if self.server.contract == Contract::ZooKeeper {
            self.ping(id);
        }
        Some((id, end))
    }

    /// Returns the time until which the leader cannot be reached from a session's server.
    pub(crate) fn cut_off(&self, session: u64) -> Duration {
        let replica = self.server.sessions.get(&session).and_then(|session| session.replica);
        match self.server.contract {
            Contract::Etcd | Contract::Redis => self.cut[0],
            Contract::ZooKeeper => replica.map_or(Duration::ZERO, |replica| self.cut[replica]),
        }
    }

    /// Records that a server has heard of a session.
    pub(crate) fn touch(&mut self, session: u64) {
        let now = self.now();
        if self.server.contract == Contract::ZooKeeper
            && let Some(session) = self.server.sessions.get_mut(&session)
        {
            match session.replica {
                Some(0) => session.heard = now,
                Some(_) => session.touched = true,
                None => {}
            }
        }
    }

    /// Lets the leader check later whether a session has expired.
    fn look_at(&mut self, session: u64, after: Duration) {
        self.scheduler.after(after, move |world| {
            let now = world.now();
            let Some(record) = world.server.sessions.get(&session) else { return };
            let over = record.heard + record.ttl;
            // Without a leader no session expires; a new leader restarts all of their TTLs.
            let over = over.max(world.cut[0]);
            if now < over {
                return world.look_at(session, over - now);
            }
            // Sessions expire in batches, a little late.
            if world.dice.bool() {
                let late = Duration::from_micros(world.dice.u64(1..200_000));
                return world.look_at(session, late);
            }
            world.expire(session, trace::What::Expired);
        });
    }

    pub(crate) fn expire(&mut self, session: u64, how: trace::What) {
        let Some(record) = self.server.end(session, how) else { return };
        self.note(record.process, What::Expired(session));
        self.changed();
        // On ZooKeeper the client is notified, if it can be reached.
        if self.server.contract == Contract::ZooKeeper {
            let blocked = self.processes[record.process].blocked.saturating_sub(self.now());
            let way = self.latency() + blocked + record.ttl / 8;
            self.scheduler.after(way, move |_| _ = record.ended.send(true));
        }
    }

    /// Loses a connection: its client reconnects after a time.
    pub(crate) fn disconnect(&mut self, session: u64) {
        let now = self.now();
        let Some(record) = self.server.sessions.get_mut(&session) else { return };
        record.connection += 1;
        // Requests sent from now on do not wait for those lost with the connection.
        (record.applied, record.replied) = (now, now);
        record.replica = None;
        record.touched = false;
        let process = record.process;
        // Requests under way are lost with it.
        self.doubtful += 1;
        self.note(process, What::Disconnected);
    }

    fn reconnect(&mut self, session: u64) {
        let (now, replica) = (self.now(), self.dice.usize(..3));
        let behind = self.server.replicas[replica];
        let cut = self.cut[replica].max(self.cut[0]);
        let Some(record) = self.server.sessions.get_mut(&session) else { return };
        // A server that is behind the client refuses it.
        if cut > now || behind < record.seen_revision {
            return;
        }
        // The server asks the leader.
        record.heard = now;
        record.answered = now;
        record.replica = Some(replica);
        record.applied = record.applied.max(now);
        let (process, kept) = (record.process, std::mem::take(&mut record.kept));
        for deed in kept.0 {
            self.scheduler.after(Duration::ZERO, deed);
        }
        self.note(process, What::Connected(session));
        // The new server sends the missed events.
        self.notify(Some(replica), behind);
    }

    /// The client's own work: it pings, gives up a silent connection, and connects to another
    /// server.
    fn ping(&mut self, session: u64) {
        let pause = self.ttl / 8 - self.ttl / 64;
        self.scheduler.after(pause, move |world| {
            let now = world.now();
            let Some(record) = world.server.sessions.get(&session) else { return };
            let process = &world.processes[record.process];
            if process.dead {
                return;
            }
            if process.stopped > now {
                let stopped = process.stopped - now;
                world.scheduler.after(stopped, move |world| world.woke(session));
                return;
            }
            let silent = now.saturating_sub(record.answered) > record.ttl / 4;
            match record.replica {
                Some(_) if silent => world.disconnect(session),
                None if process.blocked <= now => world.reconnect(session),
                // As the crate does, on each connection until the session is closed.
                Some(_) if process.blocked <= now && record.closing => {
                    let way = world.latency();
                    world.scheduler.after(way, move |world| {
                        world.server.end(session, trace::What::Closed);
                        world.changed();
                    });
                }
                Some(_) if process.blocked <= now => {
                    let connection = record.connection;
                    // Behind the requests that were sent before.
                    let behind = record.applied.saturating_sub(now);
                    let way = world.latency().max(behind);
                    world.scheduler.after(way, move |world| world.pinged(session, connection));
                }
                _ => {}
            }
            world.ping(session);
        });
    }

    /// Replies that have arrived may be read before the client checks how long it heard nothing.
    fn woke(&mut self, session: u64) {
        let (now, heard) = (self.now(), self.dice.bool());
        if let Some(record) = self.server.sessions.get_mut(&session)
            && heard
        {
            record.answered = now;
        }
        self.ping(session);
    }

    fn pinged(&mut self, session: u64, connection: u64) {
        let now = self.now();
        let Some(record) = self.server.sessions.get_mut(&session) else { return };
        if record.connection != connection {
            return;
        }
        record.answered = now;
        self.touch(session);
    }

    /// A follower reports to the leader which sessions it has heard from.
    pub(crate) fn report(&mut self, replica: usize) {
        let now = self.now();
        if self.cut[replica] <= now && self.cut[0] <= now {
            for record in self.server.sessions.values_mut() {
                if record.replica == Some(replica) && std::mem::take(&mut record.touched) {
                    record.heard = now;
                }
            }
        }
        let pause = self.ttl / 4;
        self.scheduler.after(pause, move |world| world.report(replica));
    }

    /// Cuts a server off from the others. Its clients notice when it closes their connections.
    pub(crate) fn cut_server(&mut self, replica: usize, time: Duration) {
        let now = self.now();
        self.cut[replica] = now + time;
        self.note(usize::MAX, What::Cut);
        for process in &mut self.processes {
            process.struck = process.struck.max(now + time);
        }
        if self.server.contract == Contract::ZooKeeper {
            let until = time.min(self.ttl / 2);
            self.scheduler.after(until, move |world| {
                let theirs = world.server.sessions.iter();
                let theirs: BTreeSet<_> = theirs
                    .filter(|(_, record)| record.replica == Some(replica))
                    .map(|(id, _)| *id)
                    .collect();
                theirs.into_iter().for_each(|session| world.disconnect(session));
            });
        }
        if replica == 0 {
            // A new leader restarts the TTLs of all sessions.
            self.scheduler.after(time, |world| {
                let now = world.now();
                for record in world.server.sessions.values_mut() {
                    record.heard = now;
                }
            });
        }
    }
}
