//! Entries that are alone in their queues: one `UPDATE` adds an entry to `distlock_alone`, and one
//! removes it. Each is one commit for all calls of a session that arrived while the connection was
//! busy.
//!
//! Steps that are missing from the reply have to be sent again by `join.rs` or `leave.rs`. Their
//! queues have other entries, or their rows are missing or closed. **No request waits for a user's
//! transaction**, because all later requests on the connection would wait too, and with them the
//! session's renewal.

use std::collections::{HashMap, HashSet, VecDeque};

use super::{
    ending::is_there,
    join::Joining,
    leave,
    literal::{bytes, text},
    message::{EPOCH, Message},
    places::row_of,
    time::NOW,
};
use crate::{
    backend::sql::{
        outcome::{Outcome, Row},
        step::{Kind, Step},
    },
    runtime::random,
};

/// The number of steps in one request. It takes some milliseconds, which also delay the session's
/// renewal.
const MOST: usize = 128;

/// The total size in bytes of the values of several steps. A server accepts requests of 16 MiB.
const LARGEST: usize = 64 << 10;

/// Takes the steps that can be sent together with the first one: steps of its kind that fit, each
/// for another queue. No step overtakes an earlier one that may be for its queue.
pub(super) fn together<T>(
    first: &Step,
    waiting: &mut VecDeque<T>,
    step_of: impl Fn(&T) -> Option<&Step>,
    fits: impl Fn(&T, &Step) -> bool,
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
            && fits(&one, step);
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

/// Steps of one kind, each for another queue, ordered by the queues' names.
pub(super) struct Batch<'a> {
    session: i64,
    steps: Vec<&'a Step>,
    /// See [`Batch::selecting`].
    selects: bool,
}

impl<'a> Batch<'a> {
    pub(super) fn of(session: i64, steps: impl Iterator<Item = &'a Step>) -> Self {
        let mut steps: Vec<_> = steps.collect();
        steps.sort_unstable_by_key(|step| step.dir());
        Self { session, steps, selects: false }
    }

    /// Makes another statement read the number that a join has drawn. On a borrowed connection,
    /// `LAST_INSERT_ID` would change the value that the connection's own program reads.
    pub(super) fn selecting(self, selects: bool) -> Self {
        Self { selects, ..self }
    }

    /// Returns one statement for a single step, and a second one if the step is a leave with a
    /// successor or a join of a [selecting](Self::selecting) batch. For several steps, the last
    /// statement returns the queue, ticket and number of each. `fresh`: some of the queues may have
    /// no row yet.
    ///
    /// Several statements form a transaction, so that a refused statement undoes the others.
    pub(super) fn message(&self, fresh: bool) -> Message {
        let (session, turn) = (self.session, random::id());
        if let [Step::Leave { number: Some(number), successor, .. }] = *self.steps {
            return leave::at_once(session, self.steps[0], *number, *successor);
        }
        let is_join = self.steps.first().is_some_and(|step| step.kind() == Kind::Join);
        let mut statements = vec![if is_join { self.join(turn) } else { self.leave(turn) }];
        if self.steps.len() == 1 && !(self.selects && is_join) {
            return Message::bare(statements);
        }
        if is_join && fresh {
            let steps: Vec<_> = self.steps.iter().map(|step| (*step).clone()).collect();
            statements.extend(Joining::new(session, turn, &steps, false).fresh());
        }
        let own = if is_join { format!("AND session = {session}") } else { String::new() };
        statements.push(format!(
            "SELECT queue, ticket, number FROM distlock_alone \
             WHERE queue IN ({}) AND turn = {turn} {own}",
            self.names()
        ));
        Message::bare(statements).whole()
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.steps.iter().map(|step| text(step.dir())).collect();
        names.join(", ")
    }

    fn leave(&self, turn: i64) -> String {
        let own = self.steps.iter().map(|step| {
            let number = match step {
                Step::Leave { number, .. } => number.unwrap_or_default(),
                Step::Join { .. } => 0,
            };
            format!("({number}, {}, {})", text(step.ticket()), text(step.label()))
        });
        format!(
            "UPDATE distlock_alone SET session = NULL, turn = {turn} WHERE queue IN ({}) \
             AND session = {} AND (number, ticket, label) IN ({}) AND {EPOCH} IS NOT NULL",
            self.names(),
            self.session,
            own.collect::<Vec<_>>().join(", ")
        )
    }

    fn join(&self, turn: i64) -> String {
        let each = |of: &dyn Fn(&Step) -> String| {
            let values: Vec<_> = self.steps.iter().map(|step| of(step)).collect();
            if values.iter().all(|value| *value == values[0]) {
                return values[0].clone();
            }
            let cases = self.steps.iter().zip(values);
            let cases =
                cases.map(|(step, value)| format!("WHEN {} THEN {value}", text(step.dir())));
            format!("CASE queue {} END", cases.collect::<Vec<_>>().join(" "))
        };
        let rows: Vec<_> = self.steps.iter().map(|step| row_of(step.dir())).collect();
        let number = if self.selects { "number + 2" } else { "LAST_INSERT_ID(number + 2)" };
        format!(
            "UPDATE distlock_alone SET number = {number}, session = {}, \
             ticket = {}, label = {}, value = {}, version = 1, since = {NOW}, turn = {turn} \
             WHERE ({}) AND session IS NULL AND epoch = {EPOCH} AND {}",
            self.session,
            each(&|step| text(step.ticket())),
            each(&|step| text(step.label())),
            each(&|step| bytes(step.value())),
            rows.join(" OR "),
            is_there(self.session)
        )
    }

    /// Returns the result of each step, with the outcomes that a request for that step alone would
    /// have. A step is missing from the result if nothing was done, as after a refused statement.
    pub(super) fn read(&self, outcomes: &[Outcome], is_refused: bool) -> Came {
        let mut came = HashMap::new();
        if is_refused {
            return Came(came);
        }
        match (self.steps.as_slice(), outcomes) {
            ([step], [done]) if done.count > 0 => {
                // The only column is the number that the join has drawn.
                let number = match step {
                    Step::Join { .. } => done.first().and_then(|row| row.text(0)),
                    Step::Leave { .. } => None,
                };
                came.insert(place(step.dir(), step.ticket()), self.reply(step, number));
            }
            // The request also checked for a successor.
            ([step @ Step::Leave { .. }], [done, reply]) if done.count > 0 => {
                let cells =
                    |row: &Row| (0..2).map(|cell| row.text(cell).map(str::to_owned)).collect();
                let reply = reply.rows().iter().map(|row| Row::new(cells(row)));
                let outcomes = vec![Outcome::new(Vec::new(), 1), Outcome::new(reply.collect(), 1)];
                came.insert(place(step.dir(), step.ticket()), outcomes);
            }
            (steps @ ([_, _, ..] | [Step::Join { .. }]), [_, .., reply]) => {
                for row in reply.rows() {
                    let ticket = row.text(1);
                    let step = steps.iter().find(|step| Some(step.ticket()) == ticket);
                    if let Some(step) = step {
                        let reply = self.reply(step, row.text(2));
                        came.insert(place(step.dir(), step.ticket()), reply);
                    }
                }
            }
            _ => {}
        }
        Came(came)
    }

    fn reply(&self, step: &Step, number: Option<&str>) -> Vec<Outcome> {
        let text = |text: &str| Some(text.to_owned());
        match step {
            Step::Join { if_free, label, ticket, .. } => {
                let session = Some(format!("{:x}", self.session));
                let number = number.map(str::to_owned);
                let own = vec![number, session, text(ticket), text(label), text("0")];
                let mut outcomes = vec![Outcome::new(vec![Row::new(own)], 1)];
                if *if_free {
                    // The queue was empty.
                    outcomes.push(Outcome::new(vec![Row::new(vec![text("0"), text("0")])], 1));
                }
                outcomes
            }
            Step::Leave { number: known, .. } => {
                let number = number.map(str::to_owned).or(known.map(|number| number.to_string()));
                let reply = Row::new(vec![number, text("0")]);
                vec![Outcome::new(Vec::new(), 1), Outcome::new(vec![reply], 1)]
            }
        }
    }
}

fn place(dir: &str, ticket: &str) -> (String, String) {
    (dir.to_owned(), ticket.to_owned())
}

/// The outcomes of the steps that were applied.
#[derive(Debug, Default)]
pub(super) struct Came(HashMap<(String, String), Vec<Outcome>>);

impl Came {
    pub(super) fn take(&mut self, step: &Step) -> Option<Vec<Outcome>> {
        self.0.remove(&place(step.dir(), step.ticket()))
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
        Step::Leave { dir, ticket, label: String::new(), number: Some(8), successor: None }
    }

    #[test]
    fn batched_steps_keep_order_within_a_queue() {
        let tickets = |steps: &[Option<Step>]| {
            let ticket = |step: &Option<Step>| step.as_ref().map_or("-", Step::ticket).to_owned();
            steps.iter().map(ticket).collect::<Vec<_>>().join(" ")
        };
        let fits = |_: &Option<Step>, step: &Step| step.dir() != "/crowded";
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
        let rows = vec![row(&["/a", "1", "12"]), row(&["/b", "2", "22"])];
        let mut came = batch.read(&[Outcome::new(Vec::new(), 2), Outcome::new(rows, 2)], false);
        let mut own = |at: usize| {
            let outcomes = came.take(&steps[at])?;
            let row = outcomes[0].first()?;
            Some((row.number(0)?, row.text(1)?.to_owned(), row.flag(4)))
        };
        assert_eq!(own(0), Some((22, "7".to_owned(), false)));
        assert_eq!(own(1), Some((12, "7".to_owned(), false)));
        assert_eq!(own(2), None, "somebody was there");
    }

    #[test]
    fn batch_refused_half_way_is_not_applied() {
        let steps = [leave("/a", "1"), leave("/b", "2")];
        let rows = vec![row(&["/a", "1", "8"]), row(&["/b", "2", "8"])];
        let outcomes = [Outcome::new(Vec::new(), 2), Outcome::new(rows, 2)];
        for of in [1, 2] {
            let batch = Batch::of(7, steps[..of].iter());
            let done = |refused| batch.read(&outcomes[..of], refused).take(&steps[0]).is_some();
            assert!(done(false) && !done(true));
        }
    }

    /// A refused step was not applied.
    #[test]
    fn several_statements_are_one_transaction() {
        for steps in [[join("/a", "1"), join("/b", "2")], [leave("/a", "1"), leave("/b", "2")]] {
            let is_whole =
                |steps: &[Step], fresh| Batch::of(7, steps.iter()).message(fresh).transaction;
            assert!(is_whole(&steps, false) && is_whole(&steps, true));
            assert!(!is_whole(&steps[..1], false), "it is one statement");
        }
        assert!(crate::backend::mysql::leave::message(7, &leave("/a", "1")).transaction);
    }

    #[test]
    fn single_step_is_a_single_statement() {
        for (step, drawn, number) in
            [(join("/a", "1"), Some("12"), 12), (leave("/a", "1"), None, 8)]
        {
            let batch = Batch::of(7, [&step].into_iter());
            let drawn = drawn.map(|number| row(&[number])).into_iter().collect();
            assert!(batch.read(&[Outcome::default()], false).take(&step).is_none());
            let outcomes = batch.read(&[Outcome::new(drawn, 1)], false).take(&step).unwrap();
            assert_eq!(outcomes.last().unwrap().first().unwrap().number(0), Some(number));
        }
    }
}
