//! Reads queues from the rows of a reply.

use std::time::{Duration, UNIX_EPOCH};

use super::{
    key::{self, Place},
    outcome::{Outcome, Row},
};
use crate::backend::{
    Detail, Entry, Fate, Joined, Listing, Member, Predecessor, Present, Queue, Result,
    SequencePoint, Standing, StoreError, Watch, error::SEEMS_DEAD,
};

/// Returns the error for a malformed reply. The request may have been applied.
pub(crate) fn nonsense() -> StoreError {
    StoreError::Unknown("malformed reply".into())
}

/// Returns the result of the last statement.
pub(crate) fn last(outcomes: &[Outcome]) -> Result<&Outcome> {
    outcomes.last().ok_or_else(nonsense)
}

/// Converts the milliseconds that a session has left.
pub(crate) fn left(milliseconds: i64) -> Duration {
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}

/// Returns the first entry in a reply, and its position in the queue.
pub(crate) fn standing(dir: &str, rows: &[Row]) -> Result<Option<(Entry, Standing)>> {
    let entry = |row: &Row| key::entry(dir, row).ok_or_else(nonsense);
    let [own, ahead @ ..] = rows else { return Ok(None) };
    let standing = match ahead {
        [] => Standing::First,
        [nearest, others @ ..] => {
            let entry = entry(nearest)?;
            // An entry without a number is in no queue. When it ends, another one may take its
            // place.
            let first = others.is_empty() && entry.revision > 0;
            Standing::Behind(Predecessor { entry, first, seen: true })
        }
    };
    Ok(Some((entry(own)?, standing)))
}

/// Reads the entry that has just joined. The column after its key is set if it is alone.
pub(crate) fn joined(queue: &Queue, reply: &Outcome) -> Result<Option<Joined>> {
    let Some((entry, standing)) = standing(queue.dir(), reply.rows())? else { return Ok(None) };
    let alone = reply.first().is_some_and(|row| !row.flag(4));
    let at = SequencePoint(entry.revision);
    Ok(Some(Joined::Queued { entry, standing, at, alive: None, alone }))
}

/// Reads which of two entries are present, from their rows.
pub(crate) fn present(own: &Entry, ahead: &Entry, rows: &[Row]) -> Present {
    let dir = Place::of(own).dir;
    let found: Vec<_> = rows.iter().filter_map(|row| key::entry(dir, row)).collect();
    let is_there = |entry: &Entry| {
        found.iter().any(|found| found.key == entry.key && found.revision == entry.revision)
    };
    Present { own: is_there(own), ahead: Fate::of(is_there(ahead)) }
}

/// Reads a whole queue: a row for each entry, and one for each note, which has no number.
pub(crate) fn listing(
    session: i64,
    dir: &str,
    rows: &[Row],
    values: bool,
    watch: Option<Watch>,
) -> Result<Listing> {
    let (notes, members): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.text(0).is_none());
    // The quarantine is session 0.
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

/// Returns why `try_lock` cannot yet report the lock as taken. The first column is set if all
/// sessions in the queue have expired by the clock. The second is set if the store grants nothing,
/// and no entry of a live session is known.
pub(crate) fn why_not_yet(reply: &Outcome) -> Option<&'static str> {
    let row = reply.first()?;
    if row.flag(1) {
        return Some(
            "the server may lack granted locks, for example after a restart, a failover or a \
             restore, so it grants none for 1.1 times the longest TTL of any session: wait for the \
             lock, or try again later",
        );
    }
    row.flag(0).then_some(SEEMS_DEAD)
}

/// Reads an entry of a queue. Its row continues with the session's remaining time, the value, the
/// version, the creation time, an unused column, and whether the session has expired by the clock.
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
    // The text after the `@` is the place that the entry took over. Here its number says that.
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
    fn only_a_sole_predecessor_is_known_to_be_first() {
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
