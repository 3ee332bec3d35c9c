//! A sorted set: members ordered by score, and by their bytes if scores are equal.

use std::{
    cmp::Ordering,
    collections::{BTreeSet, HashMap},
};

#[derive(Clone, Debug, PartialEq)]
struct Place {
    score: f64,
    member: Vec<u8>,
}

impl Eq for Place {}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| self.member.cmp(&other.member))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// An end of a range.
#[derive(Clone, Debug)]
pub(crate) enum End<T> {
    Lowest,
    Highest,
    With(T),
    Without(T),
}

impl<T> End<T> {
    /// Returns `true` if a member is above this lower end.
    fn admits_above(&self, compare: impl Fn(&T) -> Ordering) -> bool {
        match self {
            Self::Lowest => true,
            Self::Highest => false,
            Self::With(end) => compare(end) != Ordering::Less,
            Self::Without(end) => compare(end) == Ordering::Greater,
        }
    }

    fn admits_below(&self, compare: impl Fn(&T) -> Ordering) -> bool {
        match self {
            Self::Lowest => false,
            Self::Highest => true,
            Self::With(end) => compare(end) != Ordering::Greater,
            Self::Without(end) => compare(end) == Ordering::Less,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Sorted {
    places: BTreeSet<Place>,
    scores: HashMap<Vec<u8>, f64>,
}

impl Sorted {
    pub(crate) fn len(&self) -> usize {
        self.scores.len()
    }

    pub(crate) fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    /// Sets a score; returns the former one.
    pub(crate) fn put(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let had = self.remove(member);
        // Zero has no sign.
        let score = score + 0.0;
        self.places.insert(Place { score, member: member.to_vec() });
        self.scores.insert(member.to_vec(), score);
        had
    }

    pub(crate) fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let score = self.scores.remove(member)?;
        self.places.remove(&Place { score, member: member.to_vec() });
        Some(score)
    }

    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = (&Vec<u8>, f64)> {
        self.places.iter().map(|place| (&place.member, place.score))
    }

    pub(crate) fn by_score(
        &self,
        low: &End<f64>,
        high: &End<f64>,
    ) -> impl DoubleEndedIterator<Item = (&Vec<u8>, f64)> {
        self.all().filter(move |(_, score)| {
            low.admits_above(|end| score.total_cmp(end))
                && high.admits_below(|end| score.total_cmp(end))
        })
    }

    /// Returns members of a single score by bytes. The start of a long range is found quickly.
    pub(crate) fn by_bytes(
        &self,
        low: &End<Vec<u8>>,
        high: &End<Vec<u8>>,
    ) -> impl DoubleEndedIterator<Item = (&Vec<u8>, f64)> {
        let score = self.places.first().map_or(0.0, |place| place.score);
        let from = match low {
            End::With(member) | End::Without(member) => member.clone(),
            End::Lowest | End::Highest => Vec::new(),
        };
        let until = match high {
            End::With(member) | End::Without(member) => member.clone(),
            End::Lowest | End::Highest => vec![255; 64],
        };
        let range = if from <= until && !matches!(low, End::Highest) {
            Some(self.places.range(Place { score, member: from }..=Place { score, member: until }))
        } else {
            None
        };
        let found = range.into_iter().flatten();
        found.map(|place| (&place.member, place.score)).filter(move |(member, _)| {
            low.admits_above(|end| member.as_slice().cmp(end.as_slice()))
                && high.admits_below(|end| member.as_slice().cmp(end.as_slice()))
        })
    }
}
