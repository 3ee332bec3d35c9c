//! Requests to a queue, each as one step.

use std::{rc::Rc, sync::Arc};

use super::{Change, Contract, Dir, Key, Mark, Server, Tail, View, tags};
use crate::backend::{
    Ask, Detail, Entry, Fate, LeaveOutcome, LeaveRequest, Member, Predecessor, Present, Rewritten,
    SequencePoint, Standing, Write,
    name::{Queue, Ticket},
};

impl Server {
    pub(crate) fn leave(
        &mut self,
        session: u64,
        queue: &Queue,
        ticket: Ticket,
        leave: LeaveRequest<'_>,
    ) -> LeaveOutcome {
        let ticket = ticket.to_string();
        let own = |key: &&Rc<Key>| {
            let own = key.session == session && key.ticket == ticket;
            match (self.contract, leave.entry) {
                // By its name, in any session, or under another label.
                (Contract::ZooKeeper, Some(entry)) => {
                    key.name == entry.key || own && place(&key.name) == place(&entry.key)
                }
                (Contract::ZooKeeper, None) => own,
                // By its name: the key may have been created again.
                (Contract::Etcd | Contract::Redis, _) => own && key.said() == queue.label(),
            }
        };
        let key = self.now.in_dir(queue.dir()).find(own).cloned();
        let very = |key: &Rc<Key>| {
            let same =
                |entry: &Entry| self.contract != Contract::Etcd || entry.revision == key.revision;
            leave.entry.is_none_or(same)
        };
        let existed = key.as_ref().is_some_and(very);
        let successor = leave.successor.is_some_and(|successor| self.key_of(successor).is_some());
        if let Some(key) = &key {
            let entry = leave.entry.filter(|entry| entry.crowded);
            let holder = entry.filter(|_| leave.held && key.said().is_empty());
            let tail = self.tails.get(&key.dir).map(|tail| tail.is(key));
            let name = match self.contract {
                // The release marker has what the client knows, and names the key that it means.
                Contract::Etcd | Contract::Redis => holder
                    .filter(|_| existed && tail == Some(false) && leave.successor.is_none())
                    .map(|entry| word(&entry.key, entry.revision)),
                Contract::ZooKeeper => holder.map(|_| Arc::clone(&key.name)),
            };
            if let Some(name) = name.as_ref().filter(|_| self.contract == Contract::ZooKeeper) {
                let process = self.process_of(session);
                self.tags.mark(process, &key.dir, name);
            }
            let czxid = self.dirs.get(&key.dir).map_or(0, |dir| dir.czxid);
            // ZooKeeper deletes by path. A client that knew the former directory may just have
            // created a node in this one, which it is about to delete.
            let other = leave.entry.filter(|entry| entry.revision != key.revision);
            let passing =
                self.contract == Contract::ZooKeeper && !tags::is_unique(&key.name, czxid);
            self.mistaken.extend(other.filter(|_| passing).cloned());
            let mark = name.map(|name| Mark { name, czxid });
            let plain = leave.successor.is_some() || entry.is_none() && leave.entry.is_some();
            if tail == Some(true) && !plain {
                self.tails.remove(&key.dir);
            }
            self.change(vec![Change::deleted(key)], |view| {
                view.remove(key);
                if let Some(mark) = mark {
                    Rc::make_mut(&mut view.marks).insert(Arc::clone(&key.dir), mark);
                }
            });
        }
        let at = match self.contract {
            Contract::Etcd | Contract::Redis => SequencePoint(self.now.revision),
            Contract::ZooKeeper => SequencePoint(self.number()),
        };
        LeaveOutcome { existed, successor: successor && existed, at }
    }

    /// Deletes exactly the key of an entry.
    pub(crate) fn remove(&mut self, session: u64, entry: &Entry) -> bool {
        let own = |key: &&Rc<Key>| key.session == session && key.revision == entry.revision;
        let Some(key) = self.now.key(&entry.key).filter(own).cloned() else { return false };
        if self.tails.get(&key.dir).is_some_and(|tail| tail.is(&key)) {
            self.tails.remove(&key.dir);
        }
        self.change(vec![Change::deleted(&key)], |view| view.remove(&key));
        true
    }

    pub(crate) fn rewrite_own(
        &mut self,
        entry: &Entry,
        value: &[u8],
        version: Option<u64>,
    ) -> Rewritten {
        let Some(key) = self.key_of(entry).cloned() else { return Rewritten::Gone };
        if key.version != version.unwrap_or(1) {
            return Rewritten::Not(key.version);
        }
        self.rewrite(&key, value.to_owned());
        Rewritten::Done(key.version + 1)
    }

    /// The label names the key whose token this key has; without it, the key has its own token.
    pub(crate) fn relabel(&mut self, to: &Queue, entry: &Entry, value: &[u8]) -> Option<Entry> {
        let named = |key: &&Rc<Key>| key.said() == to.label() && key.session != 0;
        let ticket = self.key_of(entry).map(|key| key.ticket.clone());
        let token = to.label().rsplit_once('@').and_then(|(_, token)| token.parse().ok());
        let known = self.now.in_dir(to.dir()).filter(named).find(|key| match &ticket {
            Some(ticket) => key.ticket == *ticket,
            None => Some(key.token) == token,
        });
        if let Some(known) = known {
            return Some(known.entry());
        }
        let own = self.key_of(entry).cloned()?;
        let name: Arc<str> = match self.contract {
            Contract::Etcd | Contract::Redis => {
                format!("{}/{:x}-{}.{}", to.dir(), own.session, own.ticket, to.label()).into()
            }
            Contract::ZooKeeper => {
                let (tag, number) = place(&own.name);
                format!("{}/{tag}-{}-lock-{number}", to.dir(), to.label()).into()
            }
        };
        let revision = self.now.revision + 1;
        let new = Rc::new(Key {
            name,
            label: Some(to.label().to_owned()),
            revision,
            token: token.unwrap_or(revision),
            value: value.to_owned(),
            version: 1,
            ..own.copied()
        });
        let changes = vec![Change::deleted(&own), Change::of(&new)];
        let put = Rc::clone(&new);
        self.change(changes, |view| {
            view.remove(&own);
            view.put(put);
        });
        Some(new.entry())
    }

    pub(crate) fn commit(&mut self, guards: &[Entry], writes: &[Write]) -> bool {
        if guards.iter().any(|guard| self.key_of(guard).is_none()) {
            return false;
        }
        let revision = self.now.revision + 1;
        let changed = |key: &str| {
            let (dir, _) = key.rsplit_once('/').unwrap_or_default();
            Change { name: key.into(), dir: dir.into(), deleted: false, touched: false }
        };
        let mut changes = Vec::new();
        for write in writes {
            match write {
                Write::Put { key, value } => {
                    self.written.push((key.clone(), Rc::new(value.clone()), revision));
                    changes.push(changed(key));
                }
                Write::Delete { key } => changes.push(changed(key)),
            }
        }
        for change in &changes {
            self.dirs.entry(Arc::clone(&change.dir)).or_insert(Dir { czxid: revision, next: 0 });
        }
        self.change(changes, |view| {
            let data = Rc::make_mut(&mut view.data);
            for write in writes {
                match write {
                    Write::Put { key, value } => {
                        data.insert(key.clone(), Rc::new(value.clone()));
                    }
                    Write::Delete { key } => {
                        data.remove(key);
                    }
                }
            }
        });
        true
    }
}

impl Server {
    /// Returns which of two keys exist, as a session's server knows it. On ZooKeeper the client has
    /// also read the marker.
    pub(crate) fn look_at_both(&mut self, session: u64, own: &Entry, ahead: &Entry) -> Present {
        let view = Rc::clone(self.view_of(session));
        if self.contract == Contract::ZooKeeper
            && let Some((dir, mark)) = view.mark_by(&ahead.key)
        {
            let process = self.process_of(session);
            self.tags.mark(process, &dir, &mark);
        }
        view.present(own, ahead)
    }
}

impl View {
    pub(super) fn standing(&self, own: &Key) -> Standing {
        let mut ahead = self.in_dir(&own.dir).rev().skip_while(|key| key.token >= own.token);
        let Some(nearest) = ahead.next() else { return Standing::First };
        let first = ahead.next().is_none();
        Standing::Behind(Predecessor { entry: nearest.entry(), first, seen: true })
    }

    pub(crate) fn standing_of(&self, entry: &Entry) -> Standing {
        match self.key(&entry.key).filter(|key| key.revision == entry.revision) {
            Some(key) => self.standing(key),
            None => Standing::Evicted,
        }
    }

    pub(crate) fn present(&self, own: &Entry, ahead: &Entry) -> Present {
        let there = |entry: &Entry| {
            let key = self.key(&entry.key);
            key.is_some_and(|key| entry.revision == 0 || entry.revision == key.revision)
        };
        let dir = ahead.key.rsplit_once('/').map_or("", |(dir, _)| dir);
        let ahead = match there(ahead) {
            true => Fate::There,
            false if self.marks.get(dir).is_some_and(|mark| concerns(mark, ahead)) => {
                Fate::Released
            }
            false => Fate::Gone,
        };
        Present { own: there(own), ahead }
    }

    /// Returns the last marker written into the directory of a key.
    pub(crate) fn mark_by(&self, key: &str) -> Option<(Arc<str>, Arc<str>)> {
        let (dir, _) = key.rsplit_once('/')?;
        let (dir, mark) = self.marks.get_key_value(dir)?;
        Some((Arc::clone(dir), Arc::clone(&mark.name)))
    }

    pub(crate) fn members(&self, queue: &Queue, session: u64, ask: Ask) -> Vec<Member> {
        let member = |key: &Rc<Key>| Member {
            entry: key.entry(),
            label: key.label.as_ref().map(|label| label.split('@').next().unwrap_or("").into()),
            detail: ask.values.then(|| Detail {
                value: key.value.clone(),
                version: key.version,
                since: None,
                own: key.session == session,
            }),
        };
        self.in_dir(queue.dir()).map(member).collect()
    }
}

impl Key {
    /// Returns the key's label; empty for another library's key.
    pub(crate) fn said(&self) -> &str {
        self.label.as_deref().unwrap_or_default()
    }
}

/// Returns the last part of a name, which on ZooKeeper distinguishes the nodes of a queue.
pub(super) fn sequence(name: &str) -> &str {
    name.rsplit('-').next().unwrap_or_default()
}

/// Returns the parts of a ZooKeeper name that do not depend on its label: tag and number.
fn place(name: &str) -> (&str, &str) {
    let (_, own) = name.rsplit_once('/').unwrap_or_default();
    (own.split('-').next().unwrap_or_default(), sequence(own))
}

impl Tail {
    pub(super) fn is(&self, key: &Key) -> bool {
        self.name == key.name && self.revision == key.revision
    }
}

/// The release marker of a holder in etcd.
fn word(name: &str, revision: u64) -> Arc<str> {
    format!("{name} {revision}").into()
}

/// The release marker in ZooKeeper is a name, which counts only if it is of this directory.
fn concerns(mark: &Mark, entry: &Entry) -> bool {
    mark.name == entry.key && tags::is_mark_in(&mark.name, mark.czxid)
        || mark.name == word(&entry.key, entry.revision)
}
