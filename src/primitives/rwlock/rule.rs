//! Admits many readers together, or one writer alone.

use crate::{
    backend::{Member, Part, Which},
    queue::mode::{Admission, Rule},
};

/// The labels of a reader's key and of a writer's key.
pub(super) const READER: &str = "r";
pub(super) const WRITER: &str = "w";

/// Admits a reader together with other readers.
pub(super) struct Reader;

impl Rule for Reader {
    fn judge(&self, ahead: &[Member], _: &[Box<str>]) -> Admission {
        // A key without a known label may be another library's writer.
        let writer = ahead.iter().rev().find(|member| member.label.as_deref() != Some(READER));
        writer.map_or(Admission::In, Admission::behind)
    }

    fn part(&self, own: Option<u64>) -> Option<Part> {
        Some(Part { own, which: Which::NearestWriter })
    }
}

/// Admits a writer alone.
pub(super) struct Writer;

impl Rule for Writer {
    fn judge(&self, ahead: &[Member], _: &[Box<str>]) -> Admission {
        ahead.last().map_or(Admission::In, Admission::behind)
    }

    fn part(&self, own: Option<u64>) -> Option<Part> {
        Some(Part { own, which: Which::Nearest })
    }
}

/// Returns how many members of the queue hold the lock.
pub(in crate::primitives) fn holding(members: &[Member]) -> usize {
    let readers = members.iter().take_while(|member| member.label.as_deref() == Some(READER));
    readers.count().max(members.len().min(1))
}
