//! The keys with their history.

use std::{
    collections::BTreeMap,
    ops::{Bound, RangeBounds},
};

use etcd_client::{
    EventType,
    proto::{PbEvent, PbKeyValue},
};

/// The end of an open range: all keys from the first one on.
const OPEN: &[u8] = &[0];

/// The keys that a request names.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    from: Vec<u8>,
    to: Bound<Vec<u8>>,
}

impl Span {
    /// One key if `end` is empty, all keys from it on if `end` is a zero byte, otherwise all before
    /// `end`.
    pub(crate) fn new(key: &[u8], end: &[u8]) -> Self {
        let to = match end {
            [] => Bound::Included(key.to_vec()),
            OPEN => Bound::Unbounded,
            end => Bound::Excluded(end.to_vec()),
        };
        Self { from: key.to_vec(), to }
    }

    /// Like `new`, except that a zero byte is an ordinary end.
    pub(crate) fn plain(key: &[u8], end: &[u8]) -> Self {
        let to = match end {
            OPEN => Bound::Excluded(end.to_vec()),
            end => return Self::new(key, end),
        };
        Self { from: key.to_vec(), to }
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        RangeBounds::<[u8]>::contains(&self.bounds(), key)
    }

    /// Returns `true` if it contains no key.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(&self.to, Bound::Excluded(end) if *end <= self.from)
    }

    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Included(&self.from), self.to.as_ref().map(Vec::as_slice))
    }
}

/// The state of a key from one revision on.
#[derive(Clone, Debug)]
struct Version {
    revision: i64,
    /// The position among the changes of that revision.
    place: usize,
    /// `None` if it was deleted.
    kv: Option<PbKeyValue>,
}

#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// By key, the oldest version first.
    history: BTreeMap<Vec<u8>, Vec<Version>>,
    pub(crate) revision: i64,
    /// Earlier revisions are forgotten.
    pub(crate) compacted: i64,
}

impl Keys {
    pub(crate) fn new() -> Self {
        Self { history: BTreeMap::new(), revision: 1, compacted: -1 }
    }

    fn within(&self, span: &Span) -> impl Iterator<Item = (&Vec<u8>, &Vec<Version>)> {
        // A range whose end is before its start would panic.
        let within = (!span.is_empty()).then(|| self.history.range::<[u8], _>(span.bounds()));
        within.into_iter().flatten()
    }

    /// Returns the keys at a revision, in order.
    pub(crate) fn at(&self, span: &Span, revision: i64) -> impl Iterator<Item = &PbKeyValue> {
        self.within(span).filter_map(move |(_, versions)| {
            let latest = versions.iter().rfind(|version| version.revision <= revision)?;
            latest.kv.as_ref()
        })
    }

    /// Returns one key at a revision.
    pub(crate) fn one(&self, key: &[u8], revision: i64) -> Option<&PbKeyValue> {
        self.at(&Span::new(key, &[]), revision).next()
    }

    /// Records a change: the new state of the key, or its deletion.
    pub(crate) fn record(
        &mut self,
        key: &[u8],
        kv: Option<PbKeyValue>,
        (revision, place): (i64, usize),
    ) {
        let versions = self.history.entry(key.to_vec()).or_default();
        versions.push(Version { revision, place, kv });
    }

    /// Returns the events since a revision, in order.
    pub(crate) fn events_since(&self, span: &Span, revision: i64) -> Vec<PbEvent> {
        let mut found = Vec::new();
        for (key, versions) in self.within(span) {
            let since = versions.iter().filter(|version| version.revision >= revision);
            found.extend(since.map(|version| (version.revision, version.place, key, version)));
        }
        found.sort_by_key(|(revision, place, ..)| (*revision, *place));
        let event = |(_, _, key, version): (_, _, &Vec<u8>, &Version)| {
            event(key, version.kv.as_ref(), version.revision)
        };
        found.into_iter().map(event).collect()
    }

    /// Forgets versions that were overwritten up to this revision or deleted before it. A deletion
    /// at the revision itself is kept for watches, as etcd does since 3.5.16
    /// (etcd-io/etcd#18274).
    pub(crate) fn compact(&mut self, revision: i64) {
        self.compacted = revision;
        self.history.retain(|_, versions| {
            let kept = versions.iter().rposition(|version| version.revision <= revision);
            if let Some(kept) = kept {
                versions.drain(..kept);
                if versions[0].kv.is_none() && versions[0].revision < revision {
                    versions.remove(0);
                }
            }
            !versions.is_empty()
        });
    }

    /// Returns the approximate size in bytes.
    pub(crate) fn size(&self) -> usize {
        let sizes = |(key, versions): (&Vec<u8>, &Vec<Version>)| {
            let values = versions.iter().filter_map(|version| version.kv.as_ref());
            key.len() * versions.len() + values.map(|kv| kv.value.len()).sum::<usize>()
        };
        self.history.iter().map(sizes).sum()
    }
}

/// Returns the event that watches receive. A deleted key has only its name.
pub(crate) fn event(key: &[u8], kv: Option<&PbKeyValue>, revision: i64) -> PbEvent {
    let deleted =
        || PbKeyValue { key: key.to_vec(), mod_revision: revision, ..PbKeyValue::default() };
    let r#type = if kv.is_some() { EventType::Put } else { EventType::Delete };
    let kv = Some(kv.cloned().unwrap_or_else(deleted));
    PbEvent { r#type: r#type.into(), kv, prev_kv: None }
}
