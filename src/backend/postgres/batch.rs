//! Calls that were waiting for the connection at the same time: one request, and one commit for
//! all of them.

use futures_util::future::try_join;
use tokio_postgres::{
    Client, Error, Statement,
    types::{ToSql, Type},
};

use super::{
    alone::{alone, cells},
    message::{Kept, parts},
};
use crate::backend::sql::outcome::{Outcome, Row};

/// How many calls one request takes. What is asked next, such as the session's renewal, waits until
/// the server has done all of them: at most some milliseconds.
pub(super) const MOST: usize = 128;

/// The two kinds of calls that are made most. Each has batches of its own: what joins is flushed,
/// and what leaves need not wait for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Join,
    Leave,
}

impl Kind {
    pub(super) fn of(kept: &Kept) -> Self {
        match kept {
            Kept::Join { .. } => Self::Join,
            Kept::Leave { .. } => Self::Leave,
        }
    }
}

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

    /// What the clock shows, and what each of these calls came to. They are of one kind, and each
    /// is about another queue.
    pub(super) async fn run(
        &self,
        client: &Client,
        session: i64,
        calls: &[&Kept],
    ) -> Result<(Outcome, Vec<Came>), Error> {
        // The functions want the queues in this order, so that no two requests wait for each other.
        let mut order: Vec<_> = (0..calls.len()).collect();
        order.sort_unstable_by_key(|at| calls[*at].dir());
        let [mut dirs, mut tickets, mut labels] = [const { Vec::<&str>::new() }; 3];
        let (mut values, mut numbers) = (Vec::<&[u8]>::new(), Vec::<Option<i64>>::new());
        for at in &order {
            let (Kept::Join { dir, ticket, label, .. } | Kept::Leave { dir, ticket, label, .. }) =
                calls[*at];
            dirs.push(dir);
            tickets.push(ticket);
            labels.push(label);
            match calls[*at] {
                Kept::Join { value, .. } => values.push(value),
                Kept::Leave { number, .. } => numbers.push(*number),
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
        Ok(read(session, calls, &order, &rows))
    }
}

/// `order` maps each place in the request to its call.
fn read(session: i64, calls: &[&Kept], order: &[usize], rows: &[Row]) -> (Outcome, Vec<Came>) {
    let mut parts = parts(rows, 2).into_iter();
    let [clock, done, checked] = [(); 3].map(|()| parts.next().unwrap_or_default());
    let mut came: Vec<_> = calls.iter().map(|_| Came::Not).collect();
    // Places are counted from 1.
    let of = |row: &Row| {
        let place = usize::try_from(row.number(0)?).ok()?.checked_sub(1)?;
        order.get(place).copied()
    };
    let text = |row: &Row, column| row.text(column).map(str::to_owned);
    for row in done.rows() {
        if let Some(at) = of(row) {
            came[at] = Came::Done(alone(session, calls[at], text(row, 1), text(row, 2)));
        }
    }
    for row in checked.rows() {
        if let Some(at) = of(row) {
            came[at] = Came::Checked;
        }
    }
    (clock, came)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Row {
        Row::new(cells.iter().map(|cell| Some((*cell).to_owned())).collect())
    }

    #[test]
    fn each_call_gets_its_own_reply() {
        let leave = |dir: &str| Kept::Leave {
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
        let (clock, came) = read(7, &calls, &[1, 3, 0, 2], &rows);
        assert_eq!(clock.first().and_then(|row| row.number(0)), Some(1700));
        let number = |came: &Came| match came {
            Came::Done(rows) => rows[1].number(1),
            _ => None,
        };
        assert_eq!((number(&came[0]), number(&came[1])), (Some(33), Some(11)));
        assert_eq!((&came[2], &came[3]), (&Came::Not, &Came::Checked));
    }
}
