//! How many permits a semaphore has, and who is let in by that.
//!
//! Clients of two builds may name different numbers while one replaces the other. Then the smallest
//! number counts that is named by anybody who is there. So neither of them is let in beside more
//! than it counts on.

use std::cmp::Reverse;

use crate::{
    backend::{Member, Part, Which},
    error::Error,
    queue::mode::{Admission, Rule},
};

/// What the name of a note begins with that says how many permits there are, after
/// [`Semaphore::set_permits`](super::Semaphore::set_permits); then come the number, those that it
/// has replaced, and the note's generation.
pub(super) const LIMIT: &str = "limit=";

/// What the generation begins with: no number, so that builds which know of none pass over it.
const GENERATION: char = '@';

/// How many replaced numbers are remembered.
const REPLACED: usize = 8;

/// How many permits there are, by a note.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) number: u32,
    /// The numbers that it has replaced, the latest first.
    replaced: Vec<u32>,
    /// Rises from one note to the next; zero where there is no note, or one of a build that knew of
    /// none.
    generation: u64,
}

impl Limit {
    fn noted(note: &str) -> Option<Self> {
        let parts: Vec<_> = note.strip_prefix(LIMIT)?.split('+').collect();
        let generation =
            parts.last().and_then(|last| last.strip_prefix(GENERATION)?.parse().ok()).unwrap_or(0);
        let mut numbers = parts.iter().map_while(|part| part.parse().ok());
        let number = numbers.next().filter(|number| *number > 0)?;
        Some(Self { number, replaced: numbers.collect(), generation })
    }

    /// The note that counts: of the highest generation. Two of one generation were written at the
    /// same time, and of them the smaller number counts, as either may be the one that others saw.
    pub(super) fn latest(notes: &[Box<str>]) -> Option<Self> {
        let noted = notes.iter().filter_map(|note| Self::noted(note));
        noted.min_by_key(|limit| (Reverse(limit.generation), limit.number))
    }

    /// The next note: this number counts instead of those in `named`, and of all that were replaced
    /// before.
    pub(super) fn next(notes: &[Box<str>], named: impl Iterator<Item = u32>, number: u32) -> Self {
        let (former, generation) = match Self::latest(notes) {
            Some(Self { number, replaced, generation }) => {
                (std::iter::once(number).chain(replaced).collect(), generation)
            }
            None => (Vec::new(), 0),
        };
        let mut replaced = Vec::new();
        for old in named.chain(former).filter(|old| *old != number) {
            if !replaced.contains(&old) {
                replaced.push(old);
            }
        }
        replaced.truncate(REPLACED);
        Self { number, replaced, generation: generation.saturating_add(1) }
    }

    pub(super) fn note(&self) -> String {
        let numbers: String = std::iter::once(&self.number)
            .chain(&self.replaced)
            .map(|number| format!("{number}+"))
            .collect();
        format!("{LIMIT}{numbers}{GENERATION}{}", self.generation)
    }

    /// How many there are for one that names this number: the note has replaced it, or the smaller
    /// one counts.
    fn of(&self, named: u32) -> u32 {
        if self.replaced.contains(&named) { self.number } else { self.number.min(named) }
    }
}

/// How many permits count with these keys and notes, for one that names `named` if it is there,
/// too; `None`: nothing tells.
pub(super) fn number(members: &[Member], notes: &[Box<str>], named: Option<u32>) -> Option<u32> {
    let limit = Limit::latest(notes);
    let counts = |named| limit.as_ref().map_or(named, |limit| limit.of(named));
    let asked = members.iter().filter_map(asked).map(|(_, number)| number);
    asked.chain(named).map(counts).min().or(limit.as_ref().map(|limit| limit.number))
}

/// The number of holders in the queue of the permits. Only its last member can be a waiter, and a
/// holder keeps its permits when `set_permits` makes fewer. `somebody_waits`: the gate is not
/// empty.
pub(in crate::primitives) fn holding(
    members: &[Member],
    notes: &[Box<str>],
    somebody_waits: bool,
) -> usize {
    let is_in = |ahead: &[Member], last: &Member| {
        // A key that does not say what it is for counts as one who is in.
        let Some((wanted, named)) = asked(last) else { return true };
        let rule = Limited { name: "", named, wanted };
        matches!(rule.judge(ahead, notes), Admission::In)
    };
    match members.split_last() {
        Some((last, ahead)) if somebody_waits && !is_in(ahead, last) => ahead.len(),
        _ => members.len(),
    }
}

/// What a key's label says: how many permits it has or wants, and how many its owner thought there
/// were.
fn claimed(label: &str) -> Option<(u32, u32)> {
    let (wanted, of) = label.split_once("of")?;
    Some((wanted.parse().ok()?, of.parse().ok().filter(|of| *of > 0)?))
}

pub(super) fn asked(member: &Member) -> Option<(u32, u32)> {
    claimed(member.label.as_deref()?)
}

/// Goes in when there are so many permits left.
pub(super) struct Limited<'a> {
    /// The semaphore's.
    pub(super) name: &'a str,
    /// How many permits this client thinks there are.
    pub(super) named: u32,
    pub(super) wanted: u32,
}

impl Rule for Limited<'_> {
    fn judge(&self, ahead: &[Member], notes: &[Box<str>]) -> Admission {
        let wanted = u64::from(self.wanted);
        // Those ahead go: what counts without them is what this one may wait for.
        let at_most = number(&[], notes, Some(self.named)).unwrap_or(self.named);
        if wanted > at_most.into() {
            let reason = format!(
                "semaphore {:?}: {wanted} were requested, and there are {at_most}; set_permits \
                 adds more",
                self.name
            );
            return Admission::Refused(Error::invalid("permits", reason));
        }
        // A key of which nobody knows what it is for had better have one.
        let taken: u64 =
            ahead.iter().map(|member| asked(member).map_or(1, |(taken, _)| u64::from(taken))).sum();
        let permits = number(ahead, notes, Some(self.named)).unwrap_or(at_most);
        if taken + wanted <= permits.into() { Admission::In } else { Admission::Full }
    }

    fn part(&self, own: Option<u64>) -> Option<Part> {
        Some(Part { own, which: Which::Labels })
    }
}

#[cfg(test)]
mod tests;
