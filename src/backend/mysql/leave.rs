//! Leaving a queue, whether or not it has other entries. An entry that a user's transaction has
//! locked stays.

use super::{
    literal::text,
    message::{EPOCH, Message},
    places::is_alone,
};
use crate::backend::sql::{
    outcome::{Outcome, Row},
    step::Step,
};

/// The tables that may contain the leaving entry.
#[derive(Clone, Copy, Debug)]
struct Where {
    alone: bool,
    entries: bool,
}

impl Where {
    fn of(number: Option<i64>) -> Self {
        let number = number.and_then(|number| u64::try_from(number).ok());
        Self {
            alone: number.is_none_or(is_alone),
            entries: number.is_none_or(|number| !is_alone(number)),
        }
    }
}

/// Returns a transaction, so that nothing is deleted if its last statement is refused. That
/// statement returns the queue's last number, whether the successor's entry is present, and whether
/// the leaving entry is still present. A successor that is present was so when this entry left.
pub(super) fn message(session: i64, step: &Step) -> Message {
    let Step::Leave { number, successor, .. } = step else { return Message::default() };
    let (dir, ticket, label) = (text(step.dir()), text(step.ticket()), text(step.label()));
    let known = number.map_or(String::new(), |number| format!(" AND number = {number}"));
    let own = format!(
        "session = {session} AND ticket = {ticket} AND queue = {dir} AND label = {label}{known}"
    );
    let Where { alone, entries } = Where::of(*number);
    let mut statements = Vec::new();
    // These reads skip rows that other transactions have locked. Without `IS NOT NULL` the change
    // would wait for them, because the server finds the row by its queue.
    let is_own = "number = @distlock_own AND @distlock_own IS NOT NULL";
    if alone {
        statements.push(format!(
            "SELECT MAX(number) INTO @distlock_own FROM distlock_alone WHERE {own} \
             FOR UPDATE SKIP LOCKED"
        ));
        statements.push(format!(
            "UPDATE distlock_alone SET session = NULL WHERE queue = {dir} AND {is_own}"
        ));
    }
    if entries {
        statements.push(format!(
            "SELECT MAX(number) INTO @distlock_own FROM distlock_entries WHERE {own} \
             FOR UPDATE SKIP LOCKED"
        ));
        statements.push(format!("DELETE FROM distlock_entries WHERE queue = {dir} AND {is_own}"));
    }
    let is_there = successor.map_or("FALSE".to_owned(), |number| {
        format!(
            "EXISTS (SELECT 1 FROM distlock_entries WHERE queue = {dir} AND number = {number} \
             AND session = {session})"
        )
    });
    let kept = |asked: bool, table| match asked {
        false => "FALSE".to_owned(),
        true => format!("EXISTS (SELECT 1 FROM {table} WHERE {own})"),
    };
    let last = |table| format!("COALESCE((SELECT number FROM {table} WHERE queue = {dir}), 0)");
    statements.push(format!(
        "SELECT GREATEST({}, {}), {is_there}, {} OR {}",
        last("distlock_queues"),
        last("distlock_alone"),
        kept(alone, "distlock_alone"),
        kept(entries, "distlock_entries"),
    ));
    Message::transaction(statements).of_session().step(Some(step.clone())).about([step.dir()])
}

/// Returns the request for an entry with this number that no user's transaction has locked. If it
/// finds no row, [`message`] has to follow. Without a successor, it is a single statement.
pub(super) fn at_once(session: i64, step: &Step, number: i64, successor: Option<i64>) -> Message {
    let (dir, ticket, label) = (text(step.dir()), text(step.ticket()), text(step.label()));
    let own = format!(
        "queue = {dir} AND number = {number} AND session = {session} AND ticket = {ticket} \
         AND label = {label} AND {EPOCH} IS NOT NULL"
    );
    let leave = match u64::try_from(number).is_ok_and(is_alone) {
        true => format!("UPDATE distlock_alone SET session = NULL WHERE {own}"),
        false => format!("DELETE FROM distlock_entries WHERE {own}"),
    };
    let Some(successor) = successor else { return Message::bare(vec![leave]) };
    let reply = format!(
        "SELECT GREATEST(COALESCE((SELECT number FROM distlock_queues WHERE queue = {dir}), 0), \
         {number}), EXISTS (SELECT 1 FROM distlock_entries WHERE queue = {dir} \
         AND number = {successor} AND session = {session})"
    );
    Message::bare(vec![leave, reply]).whole()
}

/// Returns how many entries have left, and the values of the last statement. `None`: a user's
/// transaction has locked the entry.
pub(super) fn read(number: Option<i64>, outcomes: &[Outcome]) -> Option<Vec<Outcome>> {
    let Where { alone, entries } = Where::of(number);
    let (reply, done) = outcomes.split_last()?;
    let row = reply.first()?;
    if row.flag(2) {
        return None;
    }
    let count = |asked: bool, at: Option<usize>| match asked {
        true => at.and_then(|at| done.get(at)).map_or(0, |outcome| outcome.count),
        false => 0,
    };
    let left = count(alone, Some(1)) + count(entries, done.len().checked_sub(1));
    let row = Row::new((0..2).map(|column| row.text(column).map(str::to_owned)).collect());
    Some(vec![Outcome::new(Vec::new(), left), Outcome::new(vec![row], 1)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(kept: &str) -> Outcome {
        Outcome::of_one(&["9", "1", kept])
    }

    fn done(count: u64) -> Outcome {
        Outcome::new(Vec::new(), count)
    }

    #[test]
    fn leave_finds_entry_in_either_table() {
        for (number, outcomes, left) in [
            (Some(8), vec![done(1), done(1), reply("0")], Some(1)),
            (Some(8), vec![done(1), done(0), reply("0")], Some(0)),
            (Some(9), vec![done(1), done(1), reply("0")], Some(1)),
            (Some(9), vec![done(1), done(0), reply("1")], None),
            (None, vec![done(1), done(0), done(1), done(1), reply("0")], Some(1)),
            (None, vec![done(1), done(1), done(1), done(0), reply("0")], Some(1)),
            (None, vec![done(1), done(0), done(1), done(0), reply("0")], Some(0)),
            (None, vec![done(1), done(0), done(1), done(0), reply("1")], None),
        ] {
            let read = read(number, &outcomes);
            let what = format!("{number:?} {outcomes:?}");
            assert_eq!(read.as_ref().map(|read| read[0].count), left, "{what}");
            if let Some([_, reply]) = read.as_deref() {
                assert_eq!(
                    reply.first().map(|row| (row.number(0), row.flag(1))),
                    Some((Some(9), true))
                );
            }
        }
    }
}
