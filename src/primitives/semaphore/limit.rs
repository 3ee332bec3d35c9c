//! Determines how many permits a semaphore has, and which clients it admits.
//!
//! Clients of two builds may name different numbers during a rollout. The smallest number that any
//! client in the queue names then applies. So while a client holds permits, all clients together
//! hold no more permits than that client has named, unless `set_permits` changes the number.

use std::cmp::Reverse;

use crate::{
    backend::{Member, Part, Which, name::NOBODY},
    error::Error,
    queue::mode::{Admission, Rule},
};

/// The prefix of the name of a note, which
/// [`Semaphore::set_permits`](super::Semaphore::set_permits) writes. The number of permits follows,
/// then the numbers that it has replaced, and the generation of the note.
pub(super) const LIMIT: &str = "limit=";

/// The prefix of the generation. It is not a digit, so that older builds ignore the generation.
const GENERATION: char = '@';

/// How many replaced numbers a note keeps.
const REPLACED: usize = 8;

/// The number of permits by a note.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) number: u32,
    /// The replaced numbers, the latest first.
    replaced: Vec<u32>,
    /// Rises with each note. It is zero without a note, and for a note of an older build.
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

    /// Returns the note that counts, which has the highest generation. Two notes of one generation
    /// were written concurrently. The smaller number counts then, because other clients may have
    /// read either.
    pub(super) fn latest(notes: &[Box<str>]) -> Option<Self> {
        let noted = notes.iter().filter_map(|note| Self::noted(note));
        noted.min_by_key(|limit| (Reverse(limit.generation), limit.number))
    }

    /// Returns the next note. Its number replaces those in `named` and all that were replaced
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

    /// Returns the number for a client that names `named`. It is the note's number if the note has
    /// replaced `named`, and the smaller of the two otherwise.
    fn of(&self, named: u32) -> u32 {
        if self.replaced.contains(&named) { self.number } else { self.number.min(named) }
    }
}

/// Returns the number of permits that applies to these keys and notes, and to a client that names
/// `named`. `None` if none of them determines it.
pub(super) fn number(members: &[Member], notes: &[Box<str>], named: Option<u32>) -> Option<u32> {
    let limit = Limit::latest(notes);
    let counts = |named| limit.as_ref().map_or(named, |limit| limit.of(named));
    let asked = members.iter().filter_map(asked).map(|(_, number)| number);
    asked.chain(named).map(counts).min().or(limit.as_ref().map(|limit| limit.number))
}

/// Returns the number of holders in the queue of the permits. Only its last member can be a waiter.
/// A holder keeps its permits when `set_permits` lowers the number. `somebody_waits` is `true` if
/// the gate is not empty.
pub(in crate::primitives) fn holding(
    members: &[Member],
    notes: &[Box<str>],
    somebody_waits: bool,
) -> usize {
    let is_in = |ahead: &[Member], last: &Member| {
        // A key without a readable label counts as a holder.
        let Some((wanted, named)) = asked(last) else { return true };
        let rule = Limited { name: "", named, wanted };
        matches!(rule.judge(ahead, notes), Admission::In)
    };
    match members.split_last() {
        Some((last, ahead)) if somebody_waits && !is_in(ahead, last) => ahead.len(),
        _ => members.len(),
    }
}

/// Parses the label of a key: the permits that the client has or wants, and the number that it
/// names.
fn claimed(label: &str) -> Option<(u32, u32)> {
    let (wanted, of) = label.split_once("of")?;
    Some((wanted.parse().ok()?, of.parse().ok().filter(|of| *of > 0)?))
}

pub(super) fn asked(member: &Member) -> Option<(u32, u32)> {
    claimed(member.label.as_deref()?)
}

/// Admits a client once enough permits are free.
pub(super) struct Limited<'a> {
    /// The semaphore's name.
    pub(super) name: &'a str,
    /// The number of permits that this client names.
    pub(super) named: u32,
    pub(super) wanted: u32,
}

impl Rule for Limited<'_> {
    fn judge(&self, ahead: &[Member], notes: &[Box<str>]) -> Admission {
        let wanted = u64::from(self.wanted);
        // The clients ahead will leave. What applies without them is what this client may wait for.
        let at_most = number(&[], notes, Some(self.named)).unwrap_or(self.named);
        if wanted > at_most.into() {
            let reason = format!(
                "semaphore {:?}: {wanted} permits were requested, but it has only {at_most}: \
                 request fewer, or raise the number with set_permits",
                self.name
            );
            return Admission::Refused(Error::invalid("permits", reason));
        }
        if ahead.iter().any(|member| member.label.as_deref() == Some(NOBODY)) {
            // Holders whose keys the store has lost may still have any number of permits.
            return Admission::Full;
        }
        // A key without a readable label counts as one permit.
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
