//! The state of the store.

use std::{collections::BTreeMap, rc::Rc, sync::Arc};

use super::Key;

/// By token, which is the order of every queue.
type Queue = BTreeMap<u64, Rc<Key>>;

/// A name that is stored in a directory.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) name: Arc<str>,
    /// The czxid of that directory.
    pub(crate) czxid: u64,
}

/// The state at one revision. Unchanged parts are shared between revisions.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) revision: u64,
    /// By directory.
    dirs: Rc<BTreeMap<Arc<str>, Rc<Queue>>>,
    pub(crate) data: Rc<BTreeMap<String, Rc<Vec<u8>>>>,
    /// The last marker in a directory: the name of a holder that has left, on etcd with its
    /// revision.
    pub(crate) marks: Rc<BTreeMap<Arc<str>, Mark>>,
}

impl View {
    /// The empty state.
    pub(super) fn first() -> Self {
        Self { revision: 1, ..Self::default() }
    }

    pub(crate) fn key(&self, name: &str) -> Option<&Rc<Key>> {
        let (dir, _) = name.rsplit_once('/')?;
        self.in_dir(dir).find(|key| *key.name == *name)
    }

    /// The keys of a queue, in its order.
    pub(crate) fn in_dir(&self, dir: &str) -> impl DoubleEndedIterator<Item = &Rc<Key>> {
        self.dirs.get(dir).into_iter().flat_map(|keys| keys.values())
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Rc<Key>> {
        self.dirs.values().flat_map(|keys| keys.values())
    }

    pub(crate) fn of_session(&self, session: u64) -> impl Iterator<Item = &Rc<Key>> {
        self.keys().filter(move |key| key.session == session)
    }

    /// Adds a key, in place of one with the same token if there is one.
    pub(crate) fn put(&mut self, key: Rc<Key>) {
        let keys = Rc::make_mut(&mut self.dirs).entry(Arc::clone(&key.dir)).or_default();
        Rc::make_mut(keys).insert(key.token, key);
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        let dirs = Rc::make_mut(&mut self.dirs);
        if let Some(keys) = dirs.get_mut(&key.dir) {
            Rc::make_mut(keys).remove(&key.token);
            if keys.is_empty() {
                dirs.remove(&key.dir);
            }
        }
    }

    /// Returns the names of data in a queue's directory that belongs to no session.
    pub(crate) fn notes<'a>(&'a self, dir: &'a str) -> impl Iterator<Item = &'a str> {
        self.data.keys().filter_map(move |key| {
            key.strip_prefix(dir)?.strip_prefix('/').filter(|name| !name.contains('/'))
        })
    }
}
