//! Calls that were waiting for the connection at the same time: one request, and one commit for
//! all of them.

use futures_util::future::try_join;
use tokio_postgres::{
    Client, Error, Statement,
    types::{ToSql, Type},
};

use super::{
    alone::{alone, cells},
    literal::{bytes, text},
    message::parts,
};
use crate::backend::sql::{
    outcome::{Outcome, Row},
    step::{Kind, Step},
};

/// How many calls one request takes. What is asked next, such as the session's renewal, waits until
/// the server has done all of them: at most some milliseconds.
pub(super) const MOST: usize = 128;

/// The statements, as one connection has prepared them.
#[derive(Clone)]
pub(super) struct Batches {
    join: Statement,
    leave: Statement,
}

/// What one call of a batch came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// Its rows, as those of the call by itself would be, after the clock's.
    Done(Vec<Row>),
    /// Nothing was done, as a transaction of a user's has checked the entry.
    Checked,
    /// Nothing was done: it needs more than that.
    Not,
}

impl Batches {
    pub(super) async fn prepare(client: &Client) -> Result<Self, Error> {
        let prepare = async |function, last| {
            let sql = format!(
                "SELECT part, a, b, c FROM distlock.{function}($1, $2, $3::text[]::uuid[], $4, $5)"
            );
            let types = [Type::INT8, Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY, last];
            client.prepare_typed(&sql, &types).await
        };
        let join = prepare("join_batch", Type::BYTEA_ARRAY);
        let (join, leave) = try_join(join, prepare("leave_batch", Type::INT8_ARRAY)).await?;
        Ok(Self { join, leave })
    }

    /// What the clock shows, and what each call came to.
    pub(super) async fn run(
        &self,
        client: &Client,
        session: i64,
        batch: &Batch<'_>,
    ) -> Result<(Outcome, Vec<Came>), Error> {
        let [mut dirs, mut tickets, mut labels] = [const { Vec::<&str>::new() }; 3];
        let (mut values, mut numbers) = (Vec::<&[u8]>::new(), Vec::<Option<i64>>::new());
        for call in batch.calls() {
            dirs.push(call.dir());
            tickets.push(call.ticket());
            labels.push(call.label());
            match call {
                Step::Join { value, .. } => values.push(value),
                Step::Leave { number, .. } => numbers.push(*number),
            }
        }
        let (statement, last): (_, &(dyn ToSql + Sync)) = match numbers.is_empty() {
            true => (&self.join, &values),
            false => (&self.leave, &numbers),
        };
        let parameters: [&(dyn ToSql + Sync); 5] = [&session, &dirs, &tickets, &labels, last];
        let replied = client.query(statement, &parameters).await?;
        let rows = replied.iter().map(|row| cells(row, row.try_get(0)?, 1..row.len()));
        let rows = rows.collect::<Result<Vec<_>, Error>>()?;
        Ok(batch.read(session, &rows))
    }
}

/// Calls of one kind, each about another queue.
pub(super) struct Batch<'a> {
    calls: &'a [&'a Step],
    /// The functions want the queues in the order of their names, so that no two requests wait for
    /// each other: which call has which place in the request.
    order: Vec<usize>,
}

impl<'a> Batch<'a> {
    pub(super) fn of(calls: &'a [&'a Step]) -> Self {
        let mut order: Vec<_> = (0..calls.len()).collect();
        order.sort_unstable_by_key(|at| calls[*at].dir());
        Self { calls, order }
    }

    /// In the order of the request.
    fn calls(&self) -> impl Iterator<Item = &'a Step> {
        self.order.iter().map(|at| self.calls[*at])
    }

    /// What a request comes to that has failed.
    pub(super) fn not_done(&self) -> Vec<Came> {
        self.calls.iter().map(|_| Came::Not).collect()
    }

    /// The request where nothing is prepared.
    pub(super) fn text(&self, session: i64) -> String {
        let list = |kind: &str, cell: &dyn Fn(&Step) -> String| {
            let cells: Vec<_> = self.calls().map(cell).collect();
            format!("ARRAY[{}]::{kind}[]", cells.join(", "))
        };
        let null = || "NULL".to_owned();
        let (function, last) = match self.calls().next().map(Step::kind) {
            Some(Kind::Leave) => {
                let number = |call: &Step| match call {
                    Step::Leave { number: Some(number), .. } => number.to_string(),
                    _ => null(),
                };
                ("leave_batch", list("bigint", &number))
            }
            _ => {
                let value = |call: &Step| match call {
                    Step::Join { value, .. } => bytes(value),
                    Step::Leave { .. } => null(),
                };
                ("join_batch", list("bytea", &value))
            }
        };
        let dirs = list("text", &|call| text(call.dir()));
        let tickets = list("uuid", &|call| format!("'{}'", call.ticket()));
        let labels = list("text", &|call| text(call.label()));
        format!(
            "SELECT part, a, b, c FROM distlock.{function}({session}, {dirs}, {tickets}, \
             {labels}, {last})"
        )
    }

    /// What the clock shows, and what each call came to.
    pub(super) fn read(&self, session: i64, rows: &[Row]) -> (Outcome, Vec<Came>) {
        let mut parts = parts(rows, 2).into_iter();
        let [clock, done, checked] = [(); 3].map(|()| parts.next().unwrap_or_default());
        let mut came = self.not_done();
        // Places are counted from 1.
        let of = |row: &Row| {
            let place = usize::try_from(row.number(0)?).ok()?.checked_sub(1)?;
            self.order.get(place).copied()
        };
        let cell = |row: &Row, column| row.text(column).map(str::to_owned);
        for row in done.rows() {
            if let Some(at) = of(row) {
                let rows = alone(session, self.calls[at], cell(row, 1), cell(row, 2));
                came[at] = Came::Done(rows);
            }
        }
        for row in checked.rows() {
            if let Some(at) = of(row) {
                came[at] = Came::Checked;
            }
        }
        (clock, came)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Row {
        Row::new(cells.iter().map(|cell| Some((*cell).to_owned())).collect())
    }

    #[test]
    fn each_call_gets_its_own_reply() {
        let leave = |dir: &str| Step::Leave {
            dir: dir.to_owned(),
            ticket: String::new(),
            label: String::new(),
            number: None,
            successor: None,
        };
        let calls = ["/c", "/a", "/d", "/b"].map(leave);
        let calls: Vec<_> = calls.iter().collect();
        let rows = [
            row(&["0", "1700", "8", "5"]),
            row(&["1", "3", "33"]),
            row(&["1", "1", "11"]),
            row(&["2", "2"]),
            row(&["1", "9", "99"]),
        ];
        let (clock, came) = Batch::of(&calls).read(7, &rows);
        assert_eq!(clock.first().and_then(|row| row.number(0)), Some(1700));
        let number = |came: &Came| match came {
            Came::Done(rows) => rows[1].number(1),
            _ => None,
        };
        assert_eq!((number(&came[0]), number(&came[1])), (Some(33), Some(11)));
        assert_eq!((&came[2], &came[3]), (&Came::Not, &Came::Checked));
    }

    #[test]
    fn a_batch_is_one_statement_in_the_order_of_the_queues() {
        let leave = |dir: &str, number| Step::Leave {
            dir: dir.to_owned(),
            ticket: "t".to_owned(),
            label: "l'".to_owned(),
            number,
            successor: None,
        };
        let calls = [leave("/b", Some(2)), leave("/a", None)];
        let calls: Vec<_> = calls.iter().collect();
        assert_eq!(
            Batch::of(&calls).text(7),
            "SELECT part, a, b, c FROM distlock.leave_batch(7, ARRAY['/a', '/b']::text[], \
             ARRAY['t', 't']::uuid[], ARRAY['l\'\'', 'l\'\'']::text[], ARRAY[NULL, 2]::bigint[])"
        );
    }
}
