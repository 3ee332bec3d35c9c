//! Who may be in together: readers, or one writer.

use crate::{
    backend::{Member, Part, Which},
    queue::mode::{Admission, Rule},
};

/// What a reader's key says of itself, and a writer's.
pub(super) const READER: &str = "r";
pub(super) const WRITER: &str = "w";

/// Goes in with other readers.
pub(super) struct Reader;

impl Rule for Reader {
    fn judge(&self, ahead: &[Member], _: &[Box<str>]) -> Admission {
        // Another client's key, which does not say what it is for, may be a writer's.
        let writer = ahead.iter().rev().find(|member| member.label.as_deref() != Some(READER));
        writer.map_or(Admission::In, Admission::behind)
    }

    fn part(&self, own: Option<u64>) -> Option<Part> {
        Some(Part { own, which: Which::NearestWriter })
    }
}

/// Goes in alone.
pub(super) struct Writer;

impl Rule for Writer {
    fn judge(&self, ahead: &[Member], _: &[Box<str>]) -> Admission {
        ahead.last().map_or(Admission::In, Admission::behind)
    }

    fn part(&self, own: Option<u64>) -> Option<Part> {
        Some(Part { own, which: Which::Nearest })
    }
}

/// How many of those who stand in the queue are in.
pub(in crate::primitives) fn holding(members: &[Member]) -> usize {
    let readers = members.iter().take_while(|member| member.label.as_deref() == Some(READER));
    readers.count().max(members.len().min(1))
}
