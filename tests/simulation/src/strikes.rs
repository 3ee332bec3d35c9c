//! Faults of processes, servers and queues.

use std::{rc::Rc, sync::Arc, time::Duration};

use crate::{
    history::What,
    plan::Strike,
    server::{Change, Key},
    trace,
    world::World,
};

impl World {
    pub(crate) fn strike(&mut self, strike: Strike) {
        if self.calm {
            return;
        }
        let now = self.now();
        #[cfg(feature = "redis")]
        let Some(strike) = self.strike_redis(strike) else { return };
        match strike {
            Strike::Stop(process, time) => {
                self.note(process, What::Stopped);
                let process = &mut self.processes[process];
                process.stopped = process.stopped.max(now + time);
                process.struck = process.struck.max(now + time);
            }
            Strike::StopAtOpening(process, time) => self.processes[process].stalls = Some(time),
            Strike::Block(process, time) => {
                self.note(process, What::Blocked);
                let process = &mut self.processes[process];
                process.blocked = process.blocked.max(now + time);
                process.struck = process.struck.max(now + time);
            }
            Strike::Kill(process) => {
                let alive = self.processes.iter().filter(|process| !process.dead).count();
                // At least one process stays alive, besides the director.
                if alive > 2 && !self.processes[process].dead {
                    self.note(process, What::Killed);
                    self.doomed.push(process);
                }
            }
            Strike::Revoke(process, time) => {
                self.processes[process].refused = now + time;
                let theirs = self.server.sessions.iter();
                let theirs: Vec<_> = theirs
                    .filter(|(_, session)| session.process == process)
                    .map(|(session, _)| *session)
                    .collect();
                theirs.into_iter().for_each(|session| self.revoke(session));
            }
            Strike::Deny(process, time) => self.processes[process].denied = now + time,
            Strike::Cut(replica, time) => self.cut_server(replica, time),
            Strike::CutOff(process, time) => {
                let theirs = self.server.sessions.values();
                let theirs = theirs.filter(|session| session.process == process);
                let mut followers =
                    theirs.filter_map(|session| session.replica.filter(|it| *it > 0));
                if let Some(replica) = followers.next_back() {
                    self.cut_server(replica, time);
                }
            }
            Strike::DeleteKey => {
                let Some(key) = self.any_key() else { return };
                let _ = self.delete(&key);
            }
            Strike::WriteKey => {
                let Some(key) = self.any_key() else { return };
                self.note(usize::MAX, What::Operator("writes", Arc::clone(&key.name)));
                self.server.rewrite(&key, b"stranger was here".to_vec());
                self.changed();
            }
            Strike::Stranger(time) => self.stranger(time),
            // Faults of other kinds of servers.
            Strike::Crash(_) | Strike::SetClock(_) | Strike::SetSync => {}
        }
    }

    /// Applies a fault to a Redis server; returns the fault if it is handled as on other stores.
    #[cfg(feature = "redis")]
    fn strike_redis(&mut self, strike: Strike) -> Option<Strike> {
        if self.redis.is_none() {
            return Some(strike);
        }
        match strike {
            Strike::Crash(time) => self.crash_redis(time),
            Strike::SetClock(by) => self.set_redis_clock(by * 1_000_000),
            Strike::SetSync => self.set_redis_sync(),
            Strike::Cut(_, time) | Strike::CutOff(_, time) => self.pause_redis(time),
            // It has no rights, and no strangers in its queues.
            Strike::Deny(..) | Strike::WriteKey | Strike::Stranger(_) => {}
            other => return Some(other),
        }
        None
    }

    fn any_key(&mut self) -> Option<Rc<Key>> {
        let count = self.server.now.keys().count();
        let place = if count == 0 { return None } else { self.dice.usize(..count) };
        self.server.now.keys().nth(place).cloned()
    }

    /// Lets an operator end a session.
    fn revoke(&mut self, session: u64) {
        #[cfg(feature = "redis")]
        if !self.is_served() {
            return;
        }
        let keys = self.server.now.keys().filter(|key| key.session == session);
        for key in keys.cloned().collect::<Vec<_>>() {
            self.evicted(&key.name);
            self.history.operated.insert(key.dir.to_string());
        }
        #[cfg(feature = "redis")]
        if self.redis.is_some() {
            return self.end_in_redis(session);
        }
        self.expire(session, trace::What::Deleted);
    }

    /// Lets an operator delete a key; returns `false` if the server is down.
    pub(crate) fn delete(&mut self, key: &Key) -> bool {
        #[cfg(feature = "redis")]
        if !self.is_served() {
            return false;
        }
        self.note(usize::MAX, What::Operator("deletes", Arc::clone(&key.name)));
        self.evicted(&key.name);
        self.history.operated.insert(key.dir.to_string());
        #[cfg(feature = "redis")]
        if self.redis.is_some() {
            self.delete_in_redis(key);
            return true;
        }
        self.server.deletes = trace::What::Deleted;
        self.server.delete(&[Arc::clone(&key.name)]);
        self.server.deletes = trace::What::Left;
        self.changed();
        true
    }

    /// Lets another client's waiter stay in a queue for a while.
    fn stranger(&mut self, time: Duration) {
        let Some(dir) = self.any_key().map(|key| Arc::clone(&key.dir)) else { return };
        let (number, revision) = (self.server.number(), self.server.now.revision + 1);
        let name: Arc<str> = format!("{dir}/_c_{number}-lock-{revision:010}").into();
        let key = Rc::new(Key {
            name: Arc::clone(&name),
            dir: Arc::clone(&dir),
            label: None,
            revision,
            token: revision,
            session: 0,
            ticket: String::new(),
            value: Vec::new(),
            version: 1,
            crowded: true,
        });
        self.note(usize::MAX, What::Operator("joins as a stranger", Arc::clone(&name)));
        let new = Rc::clone(&key);
        self.server.change(vec![Change::of(&key)], |view| view.put(new));
        if let Some(dir) = self.server.dirs.get_mut(&key.dir) {
            dir.next += 1;
        }
        self.changed();
        self.scheduler.after(time, move |world| {
            world.server.delete(&[name]);
            world.changed();
        });
    }
}
