//! What the rows of an answer say of a queue.

use std::time::{Duration, UNIX_EPOCH};

use super::{
    key::{self, Place},
    outcome::{Outcome, Row},
};
use crate::backend::{
    Detail, Entry, Fate, Joined, Listing, Member, Predecessor, Present, Queue, Result,
    SequencePoint, Standing, StoreError, Watch, error::SEEMS_DEAD,
};

/// An answer that cannot be read: what was asked may have been done.
pub(crate) fn nonsense() -> StoreError {
    StoreError::Unknown("an answer that makes no sense".into())
}

/// What the last statement of an answer came to.
pub(crate) fn last(outcomes: &[Outcome]) -> Result<&Outcome> {
    outcomes.last().ok_or_else(nonsense)
}

/// How long a session has left that has so many milliseconds left.
pub(crate) fn left(milliseconds: i64) -> Duration {
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}

/// The entry that comes first in an answer, and where it stands.
pub(crate) fn standing(dir: &str, rows: &[Row]) -> Result<Option<(Entry, Standing)>> {
    let entry = |row: &Row| key::entry(dir, row).ok_or_else(nonsense);
    let [own, ahead @ ..] = rows else { return Ok(None) };
    let standing = match ahead {
        [] => Standing::First,
        [nearest, others @ ..] => {
            let entry = entry(nearest)?;
            // One without a number is in no queue: when it is gone another one may be there.
            let first = others.is_empty() && entry.revision > 0;
            Standing::Behind(Predecessor { entry, first, seen: true })
        }
    };
    Ok(Some((entry(own)?, standing)))
}

/// The same of one who has just joined, and whether it is alone: in the column behind its key.
pub(crate) fn joined(queue: &Queue, reply: &Outcome) -> Result<Option<Joined>> {
    let Some((entry, standing)) = standing(queue.dir(), reply.rows())? else { return Ok(None) };
    let alone = reply.first().is_some_and(|row| !row.flag(4));
    let at = SequencePoint(entry.revision);
    Ok(Some(Joined::Queued { entry, standing, at, alive: None, alone }))
}

/// What there is of two entries of a queue, by the rows of those that are there.
pub(crate) fn present(own: &Entry, ahead: &Entry, rows: &[Row]) -> Present {
    let dir = Place::of(own).dir;
    let found: Vec<_> = rows.iter().filter_map(|row| key::entry(dir, row)).collect();
    let is_there = |entry: &Entry| {
        found.iter().any(|found| found.key == entry.key && found.revision == entry.revision)
    };
    Present { own: is_there(own), ahead: Fate::of(is_there(ahead)) }
}

/// All that is in a queue: a row for each who stands there, and one for each note left for all,
/// which has no number.
pub(crate) fn listing(
    session: i64,
    dir: &str,
    rows: &[Row],
    values: bool,
    watch: Option<Watch>,
) -> Result<Listing> {
    let (notes, members): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.text(0).is_none());
    // The quarantine's session is 0.
    let seems_dead = |row: &&&Row| row.flag(9) || row.text(1) == Some("0");
    let seem_dead = members.iter().filter(seems_dead).filter_map(|row| key::entry(dir, row));
    let seem_dead = seem_dead.map(|entry| entry.key).collect();
    let members = members.into_iter().map(|row| member(session, dir, row, values));
    Ok(Listing {
        seem_dead,
        members: members.collect::<Option<_>>().ok_or_else(nonsense)?,
        notes: notes.iter().filter_map(|row| row.text(8)).map(Into::into).collect(),
        watch,
        labels_only: false,
    })
}

/// Why one who only tries is not told yet that somebody has the lock: in the first column whether
/// all who are there are over by the clock, in the second whether nothing is granted, and nobody is
/// known to be there.
pub(crate) fn why_not_yet(reply: &Outcome) -> Option<&'static str> {
    let row = reply.first()?;
    if row.flag(1) {
        return Some(
            "it is another database server than before, or an emptied one, which may not know all \
             locks that were granted: for the longest TTL of any session it grants nothing; lock \
             with a timeout of more than that, or ask again then",
        );
    }
    row.flag(0).then_some(SEEMS_DEAD)
}

/// An entry of a queue. Its row continues with the time left of its session, value, version,
/// creation time, nothing, and whether its session has expired by the clock.
fn member(session: i64, dir: &str, row: &Row, values: bool) -> Option<Member> {
    let entry = key::entry(dir, row)?;
    let own = key::session_of(&entry.key) == Some(session);
    let detail = match values {
        false => None,
        true => Some(Detail {
            value: row.bytes(5)?,
            version: u64::try_from(row.number(6)?).ok()?,
            since: row.number(7).and_then(|at| UNIX_EPOCH.checked_add(left(at))),
            own,
        }),
    };
    // What follows the `@` says where it took its place from, which its number does here.
    let label = row.text(3)?.split('@').next().map(Into::into).filter(|_| entry.revision > 0);
    Some(Member { entry, label, detail })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: [&str; 4]) -> Row {
        Row::new(cells.map(|cell| Some(cell.to_owned())).to_vec())
    }

    #[test]
    fn only_one_in_the_queue_is_known_to_be_its_first() {
        let [own, ahead, others] =
            [row(["7", "a", "x", ""]), row(["6", "b", "y", ""]), row(["0", "gate", "plain", ""])];
        for (rows, number, first) in [
            (vec![own.clone(), ahead.clone()], 6, true),
            (vec![own.clone(), ahead, others.clone()], 6, false),
            (vec![own.clone(), others], 0, false),
        ] {
            let (_, reply) = standing("/ns/a", &rows).unwrap().unwrap();
            let Standing::Behind(reply) = reply else { panic!("nobody is ahead") };
            assert_eq!((reply.entry.revision, reply.first, reply.seen), (number, first, true));
        }
        assert_eq!(standing("/ns/a", &[own]).unwrap().unwrap().1, Standing::First);
    }
}
