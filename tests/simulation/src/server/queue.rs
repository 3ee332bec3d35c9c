//! What can be asked of a queue, each as one step.

use std::{rc::Rc, sync::Arc};

use super::{Change, Contract, Dir, Key, Server, Tail, View};
use crate::backend::{
    Ask, Detail, Entry, Fate, Join, Joined, Leaving, Left, Member, Moment, Predecessor, Present,
    Rewritten, Standing, Write,
    name::{Queue, Ticket},
};

impl Server {
    fn name_for(&mut self, queue: &Queue, session: u64, ticket: &str) -> (Arc<str>, u64) {
        let label = queue.label();
        match self.contract {
            Contract::Etcd => {
                let mark = if label.is_empty() { "" } else { "." };
                (format!("{}/{session:x}-{ticket}{mark}{label}", queue.dir()).into(), 0)
            }
            Contract::ZooKeeper => {
                let next = self.now.revision + 1;
                let dir =
                    self.dirs.entry(queue.shared_dir()).or_insert(Dir { czxid: next, next: 0 });
                let (czxid, number) = (dir.czxid, dir.next);
                dir.next += 1;
                let mark = if label.is_empty() { "" } else { "-" };
                let name = format!("{}/{czxid:x}{mark}{label}-lock-{number:010}", queue.dir());
                (name.into(), number)
            }
        }
    }

    fn own<'a>(view: &'a View, queue: &Queue, session: u64, ticket: &str) -> Option<&'a Rc<Key>> {
        let mut keys = view.in_dir(queue.dir());
        keys.find(|key| key.session == session && key.ticket == ticket)
    }

    pub(crate) fn enqueue(
        &mut self,
        session: u64,
        queue: &Queue,
        ticket: Ticket,
        value: &[u8],
        join: Join,
        guess: bool,
    ) -> Joined {
        let ticket = ticket.to_string();
        // As etcd names them, the label is a part of what is looked for.
        let known = Self::own(&self.now, queue, session, &ticket)
            .filter(|key| self.contract == Contract::ZooKeeper || key.said() == queue.label())
            .cloned();
        if let Some(key) = known {
            return self.joined(&key, false, false);
        }
        if join == Join::IfFree && self.now.in_dir(queue.dir()).next().is_some() {
            return Joined::Occupied;
        }
        let key = self.add(session, queue, &ticket, value);
        self.joined(&key, true, guess)
    }

    fn add(&mut self, session: u64, queue: &Queue, ticket: &str, value: &[u8]) -> Rc<Key> {
        let crowded = self.now.in_dir(queue.dir()).next().is_some();
        let (name, _) = self.name_for(queue, session, ticket);
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

    /// How a key has joined. `guess`: by its number alone, as far as that tells.
    fn joined(&mut self, key: &Rc<Key>, new: bool, guess: bool) -> Joined {
        let others = self.now.in_dir(&key.dir).filter(|other| other.name != key.name).count();
        let alone = others == 0 && self.now.notes(&key.dir).next().is_none();
        let told = if new { self.guessed(key, others, guess) } else { None };
        let standing = told.unwrap_or_else(|| self.now.standing(key));
        let mut entry = key.entry();
        entry.crowded = match self.contract {
            Contract::Etcd => !new || self.tails.get(&key.dir).is_some_and(|tail| tail.is(key)),
            Contract::ZooKeeper => !(alone && new),
        };
        let ttl = self.sessions.get(&key.session).map(|session| session.ttl);
        let alive =
            ttl.filter(|_| self.contract == Contract::ZooKeeper && new).map(|ttl| ttl * 2 / 3);
        let at = match self.contract {
            Contract::Etcd => Moment(key.revision),
            Contract::ZooKeeper => Moment(self.number()),
        };
        Joined::Queued { entry, standing, at, alive, alone: alone && new }
    }

    fn guessed(&mut self, key: &Key, others: usize, guess: bool) -> Option<Standing> {
        if self.contract == Contract::Etcd {
            return self.behind_tail(key, guess && others > 0);
        }
        let (head, number) = key.name.rsplit_once('-')?;
        if !guess || !key.said().is_empty() {
            return None;
        }
        if others == 0 {
            return Some(Standing::First);
        }
        let before = number.parse::<u64>().ok()?.checked_sub(1)?;
        let name = format!("{head}-{before:010}").into();
        let entry = Entry { key: name, revision: 0, token: 0, crowded: false };
        Some(Standing::Behind(Predecessor { entry, first: others == 1, seen: false }))
    }

    /// Takes the place of the tail, if there is one; else makes one if it is to be a long queue.
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
            .map(|(queue, ticket)| self.add(session, queue, &ticket.to_string(), value))
            .collect();
        Some(keys.iter().map(|key| self.joined(key, true, false)).collect())
    }

    pub(crate) fn leave(
        &mut self,
        session: u64,
        queue: &Queue,
        ticket: Ticket,
        leave: Leaving<'_>,
    ) -> Left {
        let ticket = ticket.to_string();
        let own = |key: &&Rc<Key>| {
            key.session == session
                && key.ticket == ticket
                && match (self.contract, leave.entry) {
                    // By its number, whatever its label.
                    (Contract::ZooKeeper, Some(entry)) => {
                        sequence(&key.name) == sequence(&entry.key)
                    }
                    (Contract::ZooKeeper, None) => true,
                    // By its name: it may have been put again.
                    (Contract::Etcd, _) => key.said() == queue.label(),
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
            let mark = match self.contract {
                // What is written is what the client knows, and names the key that it means.
                Contract::Etcd => holder
                    .filter(|_| existed && tail == Some(false) && leave.successor.is_none())
                    .map(|entry| word(&entry.key, entry.revision)),
                Contract::ZooKeeper => holder.map(|_| Arc::clone(&key.name)),
            };
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
            Contract::Etcd => Moment(self.now.revision),
            Contract::ZooKeeper => Moment(self.number()),
        };
        Left { existed, successor: successor && existed, at }
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

    /// The label says whose token the key has; without that it has one of its own.
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
            Contract::Etcd => {
                format!("{}/{:x}-{}.{}", to.dir(), own.session, own.ticket, to.label()).into()
            }
            Contract::ZooKeeper => {
                let (_, rest) = own.name.rsplit_once('/')?;
                let (tag, number) = (rest.split('-').next()?, sequence(rest));
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

    pub(crate) fn commit(&mut self, guard: Option<&Entry>, writes: &[Write]) -> bool {
        if guard.is_some_and(|guard| self.key_of(guard).is_none()) {
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

impl View {
    fn standing(&self, own: &Key) -> Standing {
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
            false if self.marks.get(dir).is_some_and(|mark| tells_of(mark, ahead)) => {
                Fate::Released
            }
            false => Fate::Gone,
        };
        Present { own: there(own), ahead }
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
    /// What it says of itself; nothing for another client's.
    pub(crate) fn said(&self) -> &str {
        self.label.as_deref().unwrap_or_default()
    }
}

/// The last part of a name, by which ZooKeeper tells nodes of one queue apart.
fn sequence(name: &str) -> &str {
    name.rsplit('-').next().unwrap_or_default()
}

impl Tail {
    fn is(&self, key: &Key) -> bool {
        self.name == key.name && self.revision == key.revision
    }
}

/// What a holder leaves in etcd.
fn word(name: &str, revision: u64) -> Arc<str> {
    format!("{name} {revision}").into()
}

/// What it has left in ZooKeeper is its name.
fn tells_of(mark: &Arc<str>, entry: &Entry) -> bool {
    *mark == entry.key || *mark == word(&entry.key, entry.revision)
}
