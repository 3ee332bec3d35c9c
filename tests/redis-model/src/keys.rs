//! The keys, their values, and their expiry.

use std::collections::{BTreeMap, BTreeSet};

use crate::sorted::Sorted;

/// The value of a key.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(Vec<u8>),
    /// In the order in which its fields were added.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    Sorted(Sorted),
    Set(BTreeSet<Vec<u8>>),
}

impl Value {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "string",
            Self::Hash(_) => "hash",
            Self::Sorted(_) => "zset",
            Self::Set(_) => "set",
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Text(_) => false,
            Self::Hash(fields) => fields.is_empty(),
            Self::Sorted(members) => members.len() == 0,
            Self::Set(members) => members.is_empty(),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) value: Value,
    /// In milliseconds since 1970.
    pub(crate) expires: Option<i64>,
}

/// All keys, those of the last flush, and the names changed since.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    all: BTreeMap<Vec<u8>, Key>,
    flushed: BTreeMap<Vec<u8>, Key>,
    /// A copy of the disk.
    copied: BTreeMap<Vec<u8>, Key>,
    changed: BTreeSet<Vec<u8>>,
    changes: u64,
}

impl Keys {
    /// Returns the number of changes so far.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    fn note(&mut self, name: &[u8]) {
        self.changes += 1;
        self.changed.insert(name.to_vec());
    }

    /// Returns a key that has not expired.
    pub(crate) fn get(&mut self, name: &[u8], now: i64) -> Option<&Key> {
        self.expire(name, now);
        self.all.get(name)
    }

    /// Returns a key for a change.
    pub(crate) fn get_mut(&mut self, name: &[u8], now: i64) -> Option<&mut Key> {
        self.expire(name, now);
        if self.all.contains_key(name) {
            self.note(name);
        }
        self.all.get_mut(name)
    }

    /// Returns a value for a change; a missing key is created with the given one.
    pub(crate) fn value_mut(&mut self, name: &[u8], now: i64, empty: Value) -> &mut Value {
        self.expire(name, now);
        self.note(name);
        let new = || Key { value: empty, expires: None };
        &mut self.all.entry(name.to_vec()).or_insert_with(new).value
    }

    pub(crate) fn set(&mut self, name: &[u8], key: Key) {
        self.note(name);
        self.all.insert(name.to_vec(), key);
    }

    pub(crate) fn remove(&mut self, name: &[u8], now: i64) -> bool {
        self.expire(name, now);
        self.note(name);
        self.all.remove(name).is_some()
    }

    /// Removes a key whose value has become empty.
    pub(crate) fn tidy(&mut self, name: &[u8]) {
        if self.all.get(name).is_some_and(|key| key.value.is_empty()) {
            self.all.remove(name);
        }
    }

    pub(crate) fn names(&mut self, now: i64) -> Vec<Vec<u8>> {
        let names: Vec<_> = self.all.keys().cloned().collect();
        names.into_iter().filter(|name| self.get(name, now).is_some()).collect()
    }

    pub(crate) fn clear(&mut self) {
        self.changes += 1;
        self.changed.extend(self.all.keys().cloned());
        self.all.clear();
    }

    fn expire(&mut self, name: &[u8], now: i64) {
        let is_over = |key: &Key| key.expires.is_some_and(|expires| expires <= now);
        if self.all.get(name).is_some_and(is_over) {
            self.all.remove(name);
            self.note(name);
        }
    }

    /// Flushes all changes to the disk.
    pub(crate) fn flush(&mut self) {
        for name in std::mem::take(&mut self.changed) {
            match self.all.get(&name) {
                Some(key) => drop(self.flushed.insert(name, key.clone())),
                None => drop(self.flushed.remove(&name)),
            }
        }
    }

    /// Crashes: only flushed keys are left.
    pub(crate) fn crash(&mut self) {
        self.changes += 1;
        self.all = self.flushed.clone();
        self.changed.clear();
    }

    /// Copies the disk.
    pub(crate) fn copy(&mut self) {
        self.copied = self.flushed.clone();
    }

    /// Replaces the disk's contents with the copy.
    pub(crate) fn restore(&mut self) {
        self.flushed = self.copied.clone();
    }

    /// Deletes all keys in memory and on the disk.
    pub(crate) fn wipe(&mut self) {
        *self = Self { changes: self.changes + 1, ..Self::default() };
    }
}
