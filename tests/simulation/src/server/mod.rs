//! The simulated store: its state, in the order of its changes.

mod join;
pub(crate) mod queue;
mod session;
pub(crate) mod tags;
mod view;

use std::{
    collections::{BTreeMap, VecDeque},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use tokio::sync::oneshot;

use crate::{
    backend::{Entry, Event, Joined},
    store_kind::StoreKind,
    trace::{Trace, What},
};

pub(crate) use session::{Kept, SessionRecord};
use tags::Tags;
pub(crate) use view::{Mark, View};

/// The guarantees of a kind of store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Contract {
    /// Linearizable writes and reads at the leader; leases that a keepalive renews there. A request
    /// may be applied long after its client has given it up.
    #[default]
    Etcd,
    /// Sequence numbers; reads at a server that may lag behind; sessions whose renewal reaches the
    /// leader late; one connection, whose requests are served in order.
    ZooKeeper,
    /// The library's own Redis adapter with its scripts, on a model of the server.
    Redis,
}

impl Contract {
    /// Returns the library's name of such a store.
    pub(crate) fn store(self) -> StoreKind {
        match self {
            Self::Etcd => StoreKind::Etcd,
            Self::ZooKeeper => StoreKind::ZooKeeper,
            Self::Redis => StoreKind::Redis,
        }
    }
}

/// A key in a queue.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: Arc<str>,
    pub(crate) dir: Arc<str>,
    /// `None` for another library's key.
    pub(crate) label: Option<String>,
    pub(crate) revision: u64,
    pub(crate) token: u64,
    pub(crate) session: u64,
    pub(crate) ticket: String,
    pub(crate) value: Vec<u8>,
    pub(crate) version: u64,
    /// Other keys were in the queue when it joined.
    pub(crate) crowded: bool,
}

/// What one change did to a key.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) name: Arc<str>,
    pub(crate) dir: Arc<str>,
    pub(crate) deleted: bool,
    pub(crate) touched: bool,
}

/// The target of a watch.
#[derive(Debug)]
pub(crate) enum Target {
    Key(Arc<str>),
    Dir(Arc<str>),
}

#[derive(Debug)]
pub(crate) struct Watching {
    pub(crate) session: u64,
    pub(crate) target: Target,
    /// The revision up to which its server has seen changes.
    pub(crate) since: u64,
    pub(crate) sender: oneshot::Sender<Event>,
}

/// The last key that joined a queue of etcd.
#[derive(Clone, Debug)]
pub(crate) struct Tail {
    pub(crate) name: Arc<str>,
    pub(crate) revision: u64,
    pub(crate) session: u64,
}

/// The result of a join.
#[derive(Debug)]
pub(crate) enum Entering {
    Joined(Joined),
    /// Its node's name could have been used before, so it has to be deleted.
    Misnamed(Arc<str>),
}

/// A directory. Its numbers restart at zero after it is removed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dir {
    pub(crate) czxid: u64,
    pub(crate) next: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Server {
    pub(crate) contract: Contract,
    pub(crate) now: Rc<View>,
    /// Earlier states, the oldest first; the last one is `now`.
    past: VecDeque<Rc<View>>,
    /// The latest changes, for servers that lag behind.
    changes: VecDeque<(u64, Vec<Change>)>,
    pub(crate) dirs: BTreeMap<Arc<str>, Dir>,
    pub(crate) tags: Tags,
    /// New directories have counters near their end.
    pub(crate) worn: bool,
    pub(crate) tails: BTreeMap<Arc<str>, Tail>,
    pub(crate) sessions: BTreeMap<u64, SessionRecord>,
    pub(crate) watches: BTreeMap<u64, Watching>,
    /// The revision that each server has reached.
    pub(crate) replicas: [u64; 3],
    pub(crate) numbers: u64,
    /// The time on its clock.
    pub(crate) time: Duration,
    /// The trace if one is recorded, and the kind of the next deletions.
    pub(crate) trace: Option<Trace>,
    pub(crate) deletes: What,
    /// What guarded writes have stored, with the revision.
    pub(crate) written: Vec<(String, Rc<Vec<u8>>, u64)>,
    /// Entries whose namesake was deleted instead, before its client took it back.
    pub(crate) mistaken: Vec<Entry>,
}

impl Server {
    pub(crate) fn new(contract: Contract) -> Self {
        let now = Rc::new(View::first());
        let past = VecDeque::from([Rc::clone(&now)]);
        Self { contract, past, now, replicas: [1; 3], ..Self::default() }
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Changes the state. Notifies watches on servers that never lag; other servers notify when
    /// they reach the change.
    pub(crate) fn change(&mut self, changes: Vec<Change>, change: impl FnOnce(&mut View)) {
        let mut next = (*self.now).clone();
        next.revision += 1;
        change(&mut next);
        let next = Rc::new(next);
        if let Some(trace) = &mut self.trace {
            for Change { name, deleted, touched, .. } in &changes {
                match (self.now.key(name), next.key(name)) {
                    (Some(key), _) if *deleted => trace.deleted(key, self.deletes),
                    (_, Some(key)) if !touched => trace.put(key),
                    _ => {}
                }
            }
        }
        self.past.push_back(Rc::clone(&next));
        self.changes.push_back((next.revision, changes));
        self.now = next;
    }

    /// Returns the state at a revision, or the oldest one that is kept.
    pub(crate) fn at(&self, revision: u64) -> &Rc<View> {
        let place = self.past.partition_point(|view| view.revision < revision);
        &self.past[place.min(self.past.len() - 1)]
    }

    /// Returns `true` if a queue had a key at a revision or later, as far as is known.
    pub(crate) fn was_anybody_in(&self, dir: &str, since: u64) -> bool {
        let views = self.past.iter().filter(|view| view.revision >= since).chain([&self.now]);
        let forgotten = self.at(since).revision > since;
        forgotten || views.into_iter().any(|view| view.in_dir(dir).next().is_some())
    }

    /// Returns the changes after one revision, up to another.
    pub(crate) fn between(&self, from: u64, to: u64) -> impl Iterator<Item = &Change> {
        let after = |revision: u64| self.changes.partition_point(|(at, _)| *at <= revision);
        let (begin, end) = (after(from), after(to));
        self.changes.range(begin..end.max(begin)).flat_map(|(_, changes)| changes)
    }

    /// Returns the watches to notify when a server has come from one revision to another.
    pub(crate) fn struck(&mut self, replica: Option<usize>, to: u64) -> Vec<(Watching, Event)> {
        let (mut struck, mut watches) = (Vec::new(), std::mem::take(&mut self.watches));
        for (id, watching) in &mut watches {
            let Some(session) = self.sessions.get(&watching.session) else {
                struck.push((*id, None));
                continue;
            };
            if replica.is_some_and(|replica| session.replica != Some(replica)) {
                continue;
            }
            let event =
                self.between(watching.since, to).find_map(|change| match &watching.target {
                    Target::Key(name) if *name != change.name => None,
                    Target::Key(_) if change.deleted => Some(Event::Deleted),
                    Target::Key(_) => (change.touched && self.contract == Contract::ZooKeeper)
                        .then_some(Event::Touched),
                    Target::Dir(dir) => (*dir == change.dir).then_some(Event::Touched),
                });
            // Changes that do not concern a watch are checked only once.
            watching.since = watching.since.max(to);
            struck.extend(event.map(|event| (*id, Some(event))));
        }
        self.watches = watches;
        let notified =
            struck.into_iter().filter_map(|(id, event)| Some((self.watches.remove(&id)?, event?)));
        notified.collect()
    }

    /// Brings a session's server up to the current state, as the session requests.
    pub(crate) fn refresh(&mut self, session: u64) {
        let now = self.now.revision;
        if let Some(session) = self.sessions.get_mut(&session) {
            session.seen_revision = session.seen_revision.max(now);
        }
    }

    pub(crate) fn key_of(&self, entry: &Entry) -> Option<&Rc<Key>> {
        self.now.key(&entry.key).filter(|key| entry.revision == 0 || entry.revision == key.revision)
    }

    /// Returns the state that a session's server knows, which may lag behind.
    pub(crate) fn view_of(&self, session: u64) -> &Rc<View> {
        let seen = self
            .sessions
            .get(&session)
            .and_then(|session| Some((session.replica?, session.seen_revision)));
        match seen {
            Some((replica, seen_revision)) if self.contract == Contract::ZooKeeper => {
                self.at(self.replicas[replica].max(seen_revision))
            }
            _ => &self.now,
        }
    }

    /// Deletes keys for any client; returns those that existed.
    pub(crate) fn delete(&mut self, names: &[Arc<str>]) -> Vec<Rc<Key>> {
        let keys: Vec<_> = names.iter().filter_map(|name| self.now.key(name).cloned()).collect();
        if keys.is_empty() {
            return keys;
        }
        let changes = keys.iter().map(|key| Change::deleted(key)).collect();
        self.change(changes, |view| keys.iter().for_each(|key| view.remove(key)));
        keys
    }

    /// Replaces the value of a key.
    pub(crate) fn rewrite(&mut self, key: &Key, value: Vec<u8>) {
        let changes = vec![Change { touched: true, ..Change::of(key) }];
        let new = Rc::new(Key { value, version: key.version + 1, ..key.copied() });
        self.change(changes, |view| view.put(new));
    }

    /// Ends a session and deletes its keys.
    pub(crate) fn end(&mut self, session: u64, how: What) -> Option<SessionRecord> {
        let record = self.sessions.remove(&session)?;
        self.tails.retain(|_, tail| tail.session != session);
        let own: Vec<_> = self.now.of_session(session).map(|key| Arc::clone(&key.name)).collect();
        self.deletes = how;
        self.delete(&own);
        self.deletes = What::Left;
        Some(record)
    }

    /// Removes directories without keys and data; their numbers restart.
    pub(crate) fn remove_empty_dirs(&mut self) {
        let now = &self.now;
        self.dirs
            .retain(|dir, _| now.in_dir(dir).next().is_some() || now.notes(dir).next().is_some());
        let dirs = &self.dirs;
        if self.now.marks.keys().any(|dir| !dirs.contains_key(dir)) {
            let mut next = (*self.now).clone();
            Rc::make_mut(&mut next.marks).retain(|dir, _| dirs.contains_key(dir));
            let next = Rc::new(next);
            if let Some(last) = self.past.back_mut() {
                *last = Rc::clone(&next);
            }
            self.now = next;
        }
    }

    /// Forgets states that no request can read any more.
    pub(crate) fn forget(&mut self, longest: u64) {
        let oldest = self.now.revision.saturating_sub(longest);
        while self.past.front().is_some_and(|view| view.revision < oldest) {
            self.past.pop_front();
        }
        while self.changes.front().is_some_and(|(at, _)| *at < oldest) {
            self.changes.pop_front();
        }
    }
}

impl Key {
    fn copied(&self) -> Self {
        Self {
            name: Arc::clone(&self.name),
            dir: Arc::clone(&self.dir),
            label: self.label.clone(),
            ticket: self.ticket.clone(),
            value: self.value.clone(),
            ..*self
        }
    }

    pub(crate) fn entry(&self) -> Entry {
        Entry {
            key: Arc::clone(&self.name),
            revision: self.revision,
            token: self.token,
            crowded: self.crowded,
        }
    }
}

impl Change {
    pub(crate) fn of(key: &Key) -> Self {
        Self {
            name: Arc::clone(&key.name),
            dir: Arc::clone(&key.dir),
            deleted: false,
            touched: false,
        }
    }

    pub(crate) fn deleted(key: &Key) -> Self {
        Self { deleted: true, ..Self::of(key) }
    }
}
