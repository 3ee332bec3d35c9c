//! The frequent queries of waiters, by statements that a connection has prepared.

use futures_util::future::try_join;
use tokio_postgres::{
    Client, Error, Row as PgRow, Statement,
    types::{ToSql, Type},
};

use super::{alone::cells, literal::text};
use crate::backend::sql::{key::Place, outcome::Outcome};

/// A call of a function of `leave.sql`.
#[derive(Clone, Debug)]
pub(super) enum Look {
    /// Part 1 contains those of these two entries that are present.
    Both { dir: String, own: i64, ahead: i64 },
    /// Begins to watch an entry. Part 1 contains that entry and the milliseconds that its session
    /// has left. Part 2 contains those of it and of the entry `own` that are present.
    Watch { dir: String, entry: i64, own: Option<i64> },
}

impl Look {
    pub(super) fn at_both(own: &Place<'_>, ahead: &Place<'_>) -> Self {
        Self::Both { dir: own.dir.to_owned(), own: number(own), ahead: number(ahead) }
    }

    pub(super) fn watch(entry: &Place<'_>, own: Option<&Place<'_>>) -> Self {
        Self::Watch { dir: entry.dir.to_owned(), entry: number(entry), own: own.map(number) }
    }

    /// Returns how many parts the reply has after that of the clock.
    pub(super) fn parts(&self) -> usize {
        match self {
            Self::Both { .. } => 1,
            Self::Watch { .. } => 2,
        }
    }

    /// Returns the request for a connection without prepared statements.
    pub(super) fn call(&self, session: i64) -> String {
        match self {
            Self::Both { dir, own, ahead } => {
                format!("SELECT * FROM distlock.present({session}, {}, {own}, {ahead})", text(dir))
            }
            Self::Watch { dir, entry, own } => {
                let own = own.map_or("NULL".to_owned(), |own| own.to_string());
                format!("SELECT * FROM distlock.watch({session}, {}, {entry}, {own})", text(dir))
            }
        }
    }
}

/// Returns the entry's number. Numbers drawn by the server fit.
fn number(place: &Place<'_>) -> i64 {
    i64::try_from(place.number).unwrap_or(i64::MAX)
}

/// The statements that a connection has prepared.
#[derive(Clone)]
pub(super) struct Looks {
    both: Statement,
    watch: Statement,
}

impl Looks {
    pub(super) async fn prepare(client: &Client) -> Result<Self, Error> {
        let types = [Type::INT8, Type::TEXT, Type::INT8, Type::INT8];
        let prepare = async |function| {
            let sql =
                format!("SELECT part, a, b, c, d, e FROM distlock.{function}($1, $2, $3, $4)");
            client.prepare_typed(&sql, &types).await
        };
        let (both, watch) = try_join(prepare("present"), prepare("watch")).await?;
        Ok(Self { both, watch })
    }

    /// Runs a query. Each row of its result begins with the number of its part.
    pub(super) async fn run(
        &self,
        client: &Client,
        session: i64,
        look: &Look,
    ) -> Result<Vec<Outcome>, Error> {
        let replied = match look {
            Look::Both { dir, own, ahead } => {
                let parameters: [&(dyn ToSql + Sync); 4] = [&session, dir, own, ahead];
                client.query(&self.both, &parameters).await?
            }
            Look::Watch { dir, entry, own } => {
                let parameters: [&(dyn ToSql + Sync); 4] = [&session, dir, entry, own];
                client.query(&self.watch, &parameters).await?
            }
        };
        let row = |row: &PgRow| cells(row, row.try_get(0)?, 1..row.len());
        let rows = replied.iter().map(row).collect::<Result<Vec<_>, Error>>()?;
        Ok(vec![Outcome::new(rows, 0)])
    }
}
