//! A write: its changes have one revision, and later reads of the same write see them.

use etcd_client::proto::{PbEvent, PbKeyValue};

use crate::{
    keys::{Keys, Span, event},
    lease::Leases,
};

pub(crate) struct Write<'a> {
    pub(crate) keys: &'a mut Keys,
    leases: &'a mut Leases,
    /// The events for watches.
    changes: Vec<PbEvent>,
}

impl<'a> Write<'a> {
    pub(crate) fn new(keys: &'a mut Keys, leases: &'a mut Leases) -> Self {
        Self { keys, leases, changes: Vec::new() }
    }

    /// Returns the revision of its changes.
    pub(crate) fn next(&self) -> i64 {
        self.keys.revision + 1
    }

    /// Returns the revision that it reads.
    pub(crate) fn revision(&self) -> i64 {
        self.keys.revision + i64::from(!self.changes.is_empty())
    }

    pub(crate) fn put(&mut self, key: &[u8], value: Vec<u8>, lease: i64) {
        let revision = self.next();
        let before = self.keys.one(key, revision);
        let (created, version) =
            before.map_or((revision, 1), |kv| (kv.create_revision, kv.version + 1));
        let former = before.map_or(0, |kv| kv.lease);
        let kv = PbKeyValue {
            key: key.to_vec(),
            create_revision: created,
            mod_revision: revision,
            version,
            value,
            lease,
        };
        self.leases.detach(former, key);
        self.leases.attach(lease, key);
        self.record(key, Some(kv));
    }

    /// Deletes keys; returns their number.
    pub(crate) fn delete(&mut self, span: &Span) -> i64 {
        let found: Vec<_> = self.keys.at(span, self.revision()).cloned().collect();
        for kv in &found {
            self.leases.detach(kv.lease, &kv.key);
            self.record(&kv.key, None);
        }
        i64::try_from(found.len()).unwrap_or(i64::MAX)
    }

    fn record(&mut self, key: &[u8], kv: Option<PbKeyValue>) {
        let revision = self.next();
        let place = self.changes.len();
        self.changes.push(event(key, kv.as_ref(), revision));
        self.keys.record(key, kv, (revision, place));
    }

    /// Ends the write. It creates a revision if it changed anything.
    pub(crate) fn end(self) -> Vec<PbEvent> {
        self.keys.revision += i64::from(!self.changes.is_empty());
        self.changes
    }
}
