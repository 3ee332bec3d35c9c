//! Joins a queue, as one step.

use std::{rc::Rc, sync::Arc};

use super::{
    Change, Contract, Dir, Entering, Key, Mark, Server, Tail, View,
    queue::sequence,
    tags::{self, LAST},
};
use crate::backend::{
    Entry, Join, Joined, Predecessor, SequencePoint, Standing,
    name::{Queue, Ticket},
};

/// How many numbers a worn directory has left.
const LEFT: u64 = 6;

impl Server {
    /// Returns the name of a new key. `tag`: the directory's tag, as far as the client knows it.
    fn name_for(
        &mut self,
        queue: &Queue,
        session: u64,
        ticket: &str,
        tag: Option<u64>,
    ) -> Arc<str> {
        let label = queue.label();
        if self.contract == Contract::Etcd {
            let mark = if label.is_empty() { "" } else { "." };
            return format!("{}/{session:x}-{ticket}{mark}{label}", queue.dir()).into();
        }
        let (next, first) = (self.now.revision + 1, if self.worn { LAST - LEFT } else { 0 });
        let new = !self.dirs.contains_key(queue.dir());
        let dir = self.dirs.entry(queue.shared_dir()).or_insert(Dir { czxid: next, next: first });
        let number = dir.next;
        dir.next = LAST.min(number + 1);
        let mark = if label.is_empty() { "" } else { "-" };
        let named = |tag: String| -> Arc<str> {
            format!("{}/{tag}{mark}{label}-lock-{number:010}", queue.dir()).into()
        };
        let of_dir = tag.filter(|_| !new).map(|tag| named(format!("{tag:x}")));
        // Unless the name is taken; `None` if the directory is not known.
        let free = of_dir.filter(|name| self.now.key(name).is_none());
        free.unwrap_or_else(|| named(tags::of_request(next)))
    }

    fn own(&self, queue: &Queue, session: u64, ticket: &str) -> Option<&Rc<Key>> {
        // On etcd the label is part of the name: a write lock that became a read lock has a key in
        // addition to the one that a late request creates.
        let any_label = self.contract == Contract::ZooKeeper;
        self.now.in_dir(queue.dir()).find(|key| {
            let is_own = key.session == session && key.ticket == ticket;
            is_own && (any_label || key.said() == queue.label())
        })
    }

    /// `again`: the first node's name could have been used before.
    pub(crate) fn enqueue(
        &mut self,
        session: u64,
        (queue, ticket): (&Queue, Ticket),
        value: &[u8],
        join: Join,
        (guess, again): (bool, bool),
    ) -> Entering {
        let ticket = ticket.to_string();
        let known = self.own(queue, session, &ticket).cloned();
        if let Some(key) = known {
            return self.entered(key, false, false);
        }
        if join == Join::IfFree && self.now.in_dir(queue.dir()).next().is_some() {
            return Entering::Joined(Joined::Occupied);
        }
        let (process, dir) = (self.process_of(session), queue.shared_dir());
        let tag = self.tags.get(process, &dir).filter(|_| !again);
        let passed_on = self.dirs.get(&dir).map(|_| self.tags.marked(process, &dir));
        let key = self.add(session, queue, &ticket, value, tag);
        if self.contract == Contract::ZooKeeper {
            let czxid = self.dirs.get(&dir).map_or(0, |dir| dir.czxid);
            // In the same transaction.
            if let Some(passed_on) = passed_on {
                self.rewrite_mark(&dir, passed_on.map(|name| Mark { name, czxid }));
            }
            self.tags.learn(process, &dir, czxid);
        }
        self.entered(key, true, guess)
    }

    pub(super) fn process_of(&self, session: u64) -> usize {
        self.sessions.get(&session).map_or(usize::MAX, |session| session.process)
    }

    fn entered(&mut self, key: Rc<Key>, new: bool, guess: bool) -> Entering {
        let czxid = self.dirs.get(&key.dir).map_or(0, |dir| dir.czxid);
        if self.contract == Contract::ZooKeeper && !tags::is_unique(&key.name, czxid) {
            return Entering::Misnamed(Arc::clone(&key.name));
        }
        Entering::Joined(self.joined(&key, new, guess))
    }

    /// Deletes a node that belongs to no attempt.
    pub(crate) fn take_back(&mut self, name: &Arc<str>) {
        self.delete(&[Arc::clone(name)]);
    }

    /// Part of the last change.
    fn rewrite_mark(&mut self, dir: &Arc<str>, mark: Option<Mark>) {
        let marks = Rc::make_mut(&mut Rc::make_mut(&mut self.now).marks);
        match mark {
            Some(mark) => drop(marks.insert(Arc::clone(dir), mark)),
            None => drop(marks.remove(dir)),
        }
        let now = Rc::clone(&self.now);
        if let Some(last) = self.past.back_mut() {
            *last = now;
        }
    }

    fn add(
        &mut self,
        session: u64,
        queue: &Queue,
        ticket: &str,
        value: &[u8],
        tag: Option<u64>,
    ) -> Rc<Key> {
        let crowded = self.now.in_dir(queue.dir()).next().is_some();
        let name = self.name_for(queue, session, ticket, tag);
        let revision = self.now.revision + 1;
        let key = Rc::new(Key {
            name,
            dir: queue.shared_dir(),
            label: Some(queue.label().to_owned()),
            revision,
            token: revision,
            session,
            ticket: ticket.to_owned(),
            value: value.to_owned(),
            version: 1,
            crowded,
        });
        let new = Rc::clone(&key);
        self.change(vec![Change::of(&key)], |view| view.put(new));
        key
    }

    /// Returns how a key has joined. `guess`: from its number alone, as far as possible.
    fn joined(&mut self, key: &Rc<Key>, new: bool, guess: bool) -> Joined {
        let others = self.now.in_dir(&key.dir).filter(|other| other.name != key.name).count();
        let alone = others == 0 && self.now.notes(&key.dir).next().is_none();
        let guessed = if new { self.guessed(key, others, guess) } else { None };
        let standing = guessed.unwrap_or_else(|| self.now.standing(key));
        let mut entry = key.entry();
        entry.crowded = match self.contract {
            Contract::Etcd | Contract::Redis => {
                !new || self.tails.get(&key.dir).is_some_and(|tail| tail.is(key))
            }
            Contract::ZooKeeper => !(alone && new),
        };
        let ttl = self.sessions.get(&key.session).map(|session| session.ttl);
        let alive =
            ttl.filter(|_| self.contract == Contract::ZooKeeper && new).map(|ttl| ttl * 2 / 3);
        let at = match self.contract {
            Contract::Etcd | Contract::Redis => SequencePoint(key.revision),
            Contract::ZooKeeper => SequencePoint(self.number()),
        };
        Joined::Queued { entry, standing, at, alive, alone: alone && new }
    }

    fn guessed(&mut self, key: &Key, others: usize, guess: bool) -> Option<Standing> {
        if self.contract == Contract::Etcd {
            return self.behind_tail(key, guess && others > 0);
        }
        if !guess || !key.said().is_empty() {
            return None;
        }
        if others == 0 {
            return Some(Standing::First);
        }
        let number = sequence(&key.name).parse::<u64>().ok().filter(|number| *number < LAST)?;
        let (czxid, before) = (self.dirs.get(&key.dir)?.czxid, number.checked_sub(1)?);
        let name = format!("{}/{czxid:x}-lock-{before:010}", key.dir).into();
        let entry = Entry { key: name, revision: 0, token: 0, crowded: false };
        Some(Standing::Behind(Predecessor { entry, first: others == 1, seen: false }))
    }

    /// Replaces the tail, if there is one; otherwise creates one if the queue is to be long.
    fn behind_tail(&mut self, key: &Key, long: bool) -> Option<Standing> {
        let before = self.tails.get(&key.dir).cloned();
        if before.is_some() || long && key.said().is_empty() {
            let (name, dir) = (Arc::clone(&key.name), Arc::clone(&key.dir));
            self.tails.insert(dir, Tail { name, revision: key.revision, session: key.session });
        }
        let Tail { name, revision, .. } = before?;
        if self.now.in_dir(&key.dir).any(|other| other.session == 0) {
            return None;
        }
        let entry = Entry { key: name, revision, token: revision, crowded: true };
        Some(Standing::Behind(Predecessor { entry, first: false, seen: false }))
    }

    pub(crate) fn enqueue_all(
        &mut self,
        session: u64,
        queues: &[(Queue, Ticket)],
        value: &[u8],
    ) -> Option<Vec<Joined>> {
        let is_free = |queue: &Queue| {
            self.now.in_dir(queue.dir()).next().is_none() && !self.tails.contains_key(queue.dir())
        };
        if !queues.iter().all(|(queue, _)| is_free(queue)) {
            return None;
        }
        let keys: Vec<_> = queues
            .iter()
            .map(|(queue, ticket)| {
                let tag = self.dirs.get(queue.dir()).map(|dir| dir.czxid);
                // Such names are never used again.
                let tag = tag.filter(|_| !self.worn);
                self.add(session, queue, &ticket.to_string(), value, tag)
            })
            .collect();
        Some(keys.iter().map(|key| self.joined(key, true, false)).collect())
    }
}
