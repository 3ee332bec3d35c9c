//! Calls that waited for the connection at the same time: one request and one commit for all of
//! them.

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

/// The number of calls in one request. The next request, such as the session's renewal, waits until
/// the server has run all of them, which takes at most some milliseconds.
pub(super) const MOST: usize = 128;

/// The statements that a connection has prepared.
#[derive(Clone)]
pub(super) struct Batches {
    join: Statement,
    leave: Statement,
}

/// The result of one call of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// The rows that the call would return by itself, without those of the clock.
    Done(Vec<Row>),
    /// Nothing was done, because a user's transaction has checked the entry.
    Checked,
    /// Nothing was done, because the call needs more than a batch.
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

    /// Returns the clock and the result of each call.
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

/// Calls of one kind, each on another queue.
pub(super) struct Batch<'a> {
    calls: &'a [&'a Step],
    /// The calls in the order of the request. The functions require the queues sorted by name, so
    /// that no two requests deadlock.
    order: Vec<usize>,
}

impl<'a> Batch<'a> {
    pub(super) fn of(calls: &'a [&'a Step]) -> Self {
        let mut order: Vec<_> = (0..calls.len()).collect();
        order.sort_unstable_by_key(|at| calls[*at].dir());
        Self { calls, order }
    }

    /// Returns the calls in the order of the request.
    fn calls(&self) -> impl Iterator<Item = &'a Step> {
        self.order.iter().map(|at| self.calls[*at])
    }

    /// Returns the results of a failed request.
    pub(super) fn not_done(&self) -> Vec<Came> {
        self.calls.iter().map(|_| Came::Not).collect()
    }

    /// Returns the request for a connection without prepared statements.
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

    /// Reads the clock and the result of each call.
    pub(super) fn read(&self, session: i64, rows: &[Row]) -> (Outcome, Vec<Came>) {
        let mut parts = parts(rows, 2).into_iter();
        let [clock, done, checked] = [(); 3].map(|()| parts.next().unwrap_or_default());
        let mut came = self.not_done();
        // SQL counts positions from 1.
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
