//! What many callers of one session ask for while the connection is busy: one request, and one
//! commit for all of them.
//!
//! Callers that are not in the reply are to ask again by themselves: somebody else is in the queue,
//! or a transaction of a user's keeps the entry. **No batch waits for such a transaction**, as
//! whatever the connection is asked next would wait, too, with it the session's renewal.

use std::collections::{HashMap, HashSet, VecDeque};

use super::{asked::Asked, literal::text, message::Message, opening::quarantined};
use crate::{
    backend::sql::{
        outcome::{Outcome, Row},
        step::{Kind, Step},
    },
    runtime::random,
};

/// How many steps one request takes: it takes some milliseconds, and the session's renewal waits
/// meanwhile.
const MOST: usize = 128;

/// How many bytes the values of several steps may have: a server takes requests of 16 MiB.
const LARGEST: usize = 64 << 10;

/// Takes those out that can be asked together with the first one: steps of its kind that fit, each
/// about another queue. None of them overtakes another one that may be about its queue.
pub(super) fn together<T>(
    first: &Step,
    waiting: &mut VecDeque<T>,
    step_of: impl Fn(&T) -> Option<&Step>,
    fits: impl Fn(&Step) -> bool,
) -> Vec<T> {
    let mut dirs = HashSet::from([first.dir().to_owned()]);
    let (mut taken, mut left) = (Vec::new(), VecDeque::new());
    let mut room = LARGEST.saturating_sub(first.value().len());
    while let Some(one) = waiting.pop_front() {
        let Some(step) = step_of(&one) else {
            left.push_back(one);
            break;
        };
        let is_first_of_queue = dirs.insert(step.dir().to_owned());
        let size = step.value().len();
        let fits = step.kind() == first.kind()
            && taken.len() + 1 < MOST
            && (size == 0 || size <= room)
            && fits(step);
        if is_first_of_queue && fits {
            room -= size;
            taken.push(one);
        } else {
            left.push_back(one);
        }
    }
    left.append(waiting);
    *waiting = left;
    taken
}

/// Steps of one kind, each about another queue, in the order of the queues' names.
pub(super) struct Batch<'a> {
    session: i64,
    steps: Vec<&'a Step>,
}

impl<'a> Batch<'a> {
    pub(super) fn of(session: i64, steps: impl Iterator<Item = &'a Step>) -> Self {
        let mut steps: Vec<_> = steps.collect();
        steps.sort_unstable_by_key(|step| step.dir());
        Self { session, steps }
    }

    pub(super) fn message(&self) -> Message {
        match self.steps.first().map(|step| step.kind()) {
            Some(Kind::Leave) => self.leave(),
            _ => self.join(),
        }
    }

    /// Joins the queues that nobody is in. Its last statement has a row for each of them: its name,
    /// the ticket, the entry's number, and whether there are notes on the queue.
    fn join(&self) -> Message {
        let (session, turn) = (self.session, random::id());
        let asked = Asked::of(self.steps.iter().copied());
        let is_free = format!(
            "NOT EXISTS (SELECT 1 FROM distlock_entries AS o WHERE o.queue = a.name) AND NOT {}",
            quarantined()
        );
        let mut statements = asked.lock(turn, &is_free);
        statements.push(asked.insert(session, turn, &is_free));
        statements.push(format!(
            "SELECT e.queue, e.ticket, e.number, \
             EXISTS (SELECT 1 FROM distlock_data WHERE dir = e.queue) \
             FROM distlock_entries AS e JOIN distlock_queues AS q \
             ON q.queue = e.queue AND q.number = e.number AND q.turn = {turn} \
             WHERE e.session = {session} AND e.ticket IN ({})",
            asked.tickets
        ));
        Message::transaction(statements).of_session()
    }

    /// Leaves queues. Its first statement has the entries that were there, and its last one the
    /// queues' last numbers, with whether the entry is there still. A transaction, as nothing was
    /// deleted then if that one is refused.
    fn leave(&self) -> Message {
        let session = self.session;
        let asked = Asked::of(self.steps.iter().copied());
        let own = self.steps.iter().map(|step| {
            let known = match step {
                Step::Leave { number: Some(number), .. } => format!(" AND number = {number}"),
                _ => String::new(),
            };
            format!(
                "(ticket = {} AND queue = {} AND label = {}{known})",
                text(step.ticket()),
                text(step.dir()),
                text(step.label())
            )
        });
        let own = own.collect::<Vec<_>>().join(" OR ");
        Message::transaction(vec![
            format!(
                "SELECT queue, ticket FROM distlock_entries \
                 WHERE session = {session} AND ticket IN ({})",
                asked.tickets
            ),
            format!(
                "DELETE e FROM (SELECT queue, number FROM distlock_entries FORCE INDEX (ticket) \
                 WHERE session = {session} AND ticket IN ({}) AND ({own}) \
                 LIMIT {MOST} FOR UPDATE SKIP LOCKED) AS own \
                 STRAIGHT_JOIN distlock_entries AS e \
                 ON e.queue = own.queue AND e.number = own.number",
                asked.tickets
            ),
            format!(
                "SELECT a.name, a.ticket, q.number, EXISTS (SELECT 1 FROM distlock_entries AS e \
                 WHERE e.session = {session} AND e.ticket = a.ticket) \
                 FROM {} LEFT JOIN distlock_queues AS q ON q.queue = a.name",
                asked.places
            ),
        ])
        .of_session()
    }

    /// What each step came to: the outcomes of its own message, as if it had been asked by itself.
    /// It is not among them if nothing was done.
    pub(super) fn read(&self, outcomes: &[Outcome]) -> Came {
        let kind = self.steps.first().map(|step| step.kind());
        let (Some(kind), Some(last)) = (kind, outcomes.last()) else { return Came::default() };
        let was_there: HashSet<_> = match (kind, outcomes.first()) {
            (Kind::Leave, Some(first)) => first.rows().iter().filter_map(place).collect(),
            _ => HashSet::new(),
        };
        let rows = last.rows().iter().filter_map(|row| {
            let (dir, ticket) = place(row)?;
            let outcomes = match kind {
                Kind::Join => self.joined(ticket, row)?,
                // Something keeps it.
                Kind::Leave if row.flag(3) => return None,
                Kind::Leave => left(was_there.contains(&(dir, ticket)), row),
            };
            Some(((dir.to_owned(), ticket.to_owned()), outcomes))
        });
        Came(rows.collect())
    }

    fn joined(&self, ticket: &str, row: &Row) -> Option<Vec<Outcome>> {
        let step = self.steps.iter().find(|step| step.ticket() == ticket)?;
        let text = |text: &str| Some(text.to_owned());
        let number = row.text(2).map(str::to_owned);
        let others = row.text(3).map(str::to_owned);
        let session = Some(format!("{:x}", self.session));
        let own = vec![number, session, text(ticket), text(step.label()), others];
        let mut outcomes = vec![Outcome::new(vec![Row::new(own)], 1)];
        if matches!(step, Step::Join { if_free: true, .. }) {
            // Nobody was there.
            outcomes.push(Outcome::new(vec![Row::new(vec![text("0"), text("0")])], 1));
        }
        Some(outcomes)
    }
}

fn left(was_there: bool, row: &Row) -> Vec<Outcome> {
    let number = row.text(2).map(str::to_owned);
    let told = Row::new(vec![number, Some("0".to_owned())]);
    vec![Outcome::new(Vec::new(), was_there.into()), Outcome::new(vec![told], 1)]
}

fn place(row: &Row) -> Option<(&str, &str)> {
    Some((row.text(0)?, row.text(1)?))
}

/// The outcomes of the steps that were done.
#[derive(Debug, Default)]
pub(super) struct Came(HashMap<(String, String), Vec<Outcome>>);

impl Came {
    pub(super) fn take(&mut self, step: &Step) -> Option<Vec<Outcome>> {
        self.0.remove(&(step.dir().to_owned(), step.ticket().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(dir: &str, ticket: &str) -> Step {
        let [dir, ticket] = [dir, ticket].map(str::to_owned);
        Step::Join { dir, ticket, label: String::new(), value: Vec::new(), if_free: false }
    }

    fn leave(dir: &str, ticket: &str) -> Step {
        let [dir, ticket] = [dir, ticket].map(str::to_owned);
        Step::Leave { dir, ticket, label: String::new(), number: None, successor: None }
    }

    #[test]
    fn what_goes_together_overtakes_nothing_of_its_queue() {
        let tickets = |steps: &[Option<Step>]| {
            let ticket = |step: &Option<Step>| step.as_ref().map_or("-", Step::ticket).to_owned();
            steps.iter().map(ticket).collect::<Vec<_>>().join(" ")
        };
        let fits = |step: &Step| step.dir() != "/crowded";
        for (waiting, taken, left) in [
            (vec![Some(join("/b", "1")), Some(join("/c", "2"))], "1 2", ""),
            (vec![Some(join("/a", "1")), Some(join("/b", "2")), Some(join("/b", "3"))], "2", "1 3"),
            (
                vec![Some(leave("/b", "1")), Some(join("/b", "1")), Some(join("/c", "2"))],
                "2",
                "1 1",
            ),
            (vec![Some(join("/crowded", "1")), Some(join("/b", "2"))], "2", "1"),
            // It may be about any queue.
            (vec![Some(join("/b", "1")), None, Some(join("/c", "2"))], "1", "- 2"),
        ] {
            let mut waiting = VecDeque::from(waiting);
            let what = format!("{waiting:?}");
            let found = together(&join("/a", "0"), &mut waiting, Option::as_ref, fits);
            assert_eq!(
                (tickets(&found), tickets(waiting.make_contiguous())),
                (taken.into(), left.into()),
                "{what}"
            );
        }
        let mut waiting: VecDeque<_> =
            (0..MOST).map(|at| Some(join(&at.to_string(), "1"))).collect();
        let found = together(&join("/a", "0"), &mut waiting, Option::as_ref, fits);
        assert_eq!((found.len(), waiting.len()), (MOST - 1, 1));
        let large = |dir: &str| {
            let (mut step, large) = (join(dir, "1"), vec![0; LARGEST / 2 + 1]);
            let Step::Join { value, .. } = &mut step else { panic!("{step:?}") };
            *value = large;
            Some(step)
        };
        let mut waiting = VecDeque::from([large("/b"), large("/c"), Some(join("/d", "1"))]);
        let found = together(&join("/a", "0"), &mut waiting, Option::as_ref, fits);
        assert_eq!((found.len(), waiting.len()), (2, 1));
    }

    fn row(cells: &[&str]) -> Row {
        Row::new(cells.iter().map(|cell| Some((*cell).to_owned())).collect())
    }

    #[test]
    fn each_step_gets_its_own_reply() {
        let steps = [join("/b", "2"), join("/a", "1"), join("/c", "3")];
        let batch = Batch::of(7, steps.iter());
        let rows = vec![row(&["/a", "1", "11", "0"]), row(&["/b", "2", "22", "1"])];
        let mut came = batch.read(&[Outcome::default(), Outcome::new(rows, 2)]);
        let mut own = |at: usize| {
            let outcomes = came.take(&steps[at])?;
            let row = outcomes[0].first()?;
            Some((row.number(0)?, row.text(1)?.to_owned(), row.flag(4)))
        };
        assert_eq!(own(0), Some((22, "7".to_owned(), true)));
        assert_eq!(own(1), Some((11, "7".to_owned(), false)));
        assert_eq!(own(2), None, "somebody was there");
    }

    #[test]
    fn who_is_kept_has_not_left() {
        let steps = [leave("/a", "1"), leave("/b", "2"), leave("/c", "3")];
        let there = vec![row(&["/a", "1"]), row(&["/c", "3"])];
        let rows = ["/a", "/b", "/c"].iter().zip(["1", "2", "3"]);
        let rows = rows
            .map(|(dir, ticket)| row(&[dir, ticket, "9", if ticket == "3" { "1" } else { "0" }]));
        let outcomes =
            [Outcome::new(there, 2), Outcome::default(), Outcome::new(rows.collect(), 3)];
        let mut came = Batch::of(7, steps.iter()).read(&outcomes);
        let mut existed = |at: usize| came.take(&steps[at]).map(|outcomes| outcomes[0].count);
        assert_eq!([existed(0), existed(1), existed(2)], [Some(1), Some(0), None]);
    }
}
