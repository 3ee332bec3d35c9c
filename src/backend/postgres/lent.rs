//! A connection of the user's pool that is lent for one request.
//!
//! Renewals, watches, the end of a session and requests without a waiting caller use the session's
//! own connection, which never waits for the pool. Other requests use a connection of the pool for
//! one transaction, with the statements of `pooled.rs`.

use std::{sync::Arc, time::Duration};

use super::{
    error::{Failure, OTHER_SERVER, pool_refused, triage},
    message::{CLOCK, CONNECTION},
    pool::{PoolConnection, StatementResult, UserPool},
    pooled::Pooled,
};
use crate::{
    backend::{
        Result, StoreError,
        sql::{asking::Verdict, lending::lend, outcome::Outcome},
    },
    runtime::clock::{Instant, timeout},
};

pub(super) struct Lent {
    connection: Box<dyn PoolConnection>,
    /// The time limit of the request.
    until: Instant,
    words: Pooled,
}

impl Lent {
    /// Waits for a connection for three quarters of the request's time, and leaves the rest to the
    /// server. An error means that nothing was sent.
    pub(super) async fn of(pool: &UserPool, words: &Pooled, patience: Duration) -> Result<Self> {
        let (until, lends) = (Instant::now() + patience, Arc::clone(&pool.pool));
        let acquiring = async move { lends.acquire().await };
        let connection = lend(&pool.lingers, patience, acquiring, pool_refused, drop).await?;
        Ok(Self { connection, until, words: words.clone() })
    }

    /// Returns the time that is left for the request.
    pub(super) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Runs one text as a transaction, which the server cancels when the time is over. `shown` is
    /// the lowest position that the server's log may have, and `for_locks` the time limit for each
    /// lock.
    pub(super) async fn run(
        self,
        text: &str,
        shown: i64,
        for_locks: Option<Duration>,
    ) -> Result<Vec<Outcome>, Failure> {
        let words = self.words.within(self.left());
        let (before, statements) = words.before(shown, for_locks.unwrap_or(words.for_locks()));
        let results = self.connection.run(&(before + text)).await.map_err(Failure::Pool)?;
        let outcomes = results.into_iter().skip(statements).map(StatementResult::into_outcome);
        Ok(outcomes.collect())
    }
}

/// The errors of a database without the tables: an unknown schema, function or table.
const NO_TABLES: [&str; 3] = ["3F000", "42883", "42P01"];

/// The column after those of [`CLOCK`], and what it reads.
const READ_ONLY: (usize, &str) = (3, "current_setting('transaction_read_only') = 'on'");

/// Fails unless the pool leads to the server and database of the session's own connection, which
/// has this name, and may write there. `before`: it has done so before.
pub(super) async fn verify(
    pool: &UserPool,
    words: &Pooled,
    name: i64,
    patience: Duration,
    before: bool,
) -> Result<()> {
    let lent = Lent::of(pool, words, patience).await?;
    let read = format!("{CLOCK}, {}", READ_ONLY.1);
    let failure = match timeout(lent.left(), lent.run(&read, 0, None)).await {
        Ok(Ok(outcomes)) => {
            is_named(name, &outcomes)?;
            return may_write(&outcomes, before);
        }
        Ok(Err(failure)) => failure,
        Err(late) => return Err(StoreError::Unavailable(late.into())),
    };
    let code = failure.code().unwrap_or_default().to_owned();
    let error = match triage("checking the pool", "the pool", &failure) {
        Verdict::Again(reason) => StoreError::Unavailable(reason.into()),
        Verdict::Failed(error) => error,
    };
    // After a failover the pool may keep connections to the former primary for a while.
    let elsewhere = NO_TABLES.contains(&code.as_str()) || code == OTHER_SERVER && !before;
    Err(match elsewhere {
        true => StoreError::Denied(
            format!(
                "the pool is not connected to the database in the client's URL: {}",
                error.reason()
            )
            .into(),
        ),
        // No request was sent.
        false => match error {
            StoreError::Unknown(source) => StoreError::Unavailable(source),
            error => error,
        },
    })
}

/// Fails if the pool's connections begin read-only transactions, in which every other request would
/// fail.
fn may_write(outcomes: &[Outcome], before: bool) -> Result<()> {
    let row = outcomes.first().and_then(Outcome::first);
    if !row.is_some_and(|row| row.flag(READ_ONLY.0)) {
        return Ok(());
    }
    let words = "the pool's connections begin read-only transactions: turn off \
                 default_transaction_read_only for them";
    // A server that is turned read-only may still have connections that are not.
    Err(match before {
        true => StoreError::Unavailable(words.into()),
        false => StoreError::Denied(words.into()),
    })
}

/// Fails if the reply does not contain the connection's name, which is a setting of the
/// transaction.
pub(super) fn is_named(name: i64, outcomes: &[Outcome]) -> Result<()> {
    let row = outcomes.first().and_then(Outcome::first);
    match row.and_then(|row| row.number(CONNECTION)) == Some(name) {
        true => Ok(()),
        false => Err(StoreError::Unknown(
            "the pool did not run the statements of one message as one transaction".into(),
        )),
    }
}
