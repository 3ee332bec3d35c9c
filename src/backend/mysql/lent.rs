//! A connection of the user's pool that is lent for one request.
//!
//! Renewals, polls, rechecks of held locks, the end of a session and `durability` use the session's
//! own connection, which never waits for the pool. Other requests use a connection of the pool for
//! one transaction, with the statements of `by_pool.rs`.

use std::{sync::Arc, time::Duration};

use super::{
    by_pool::{AFTER, BEFORE, Bracket, CHECK, Destination},
    error::{self, is_in_transaction, pool_refused},
    message::{CALLED, Doubt, IS_THERE, Message},
    pool::{PoolConnection, StatementResult, UserPool},
    sent::{Sent, ServerError},
};
use crate::{
    backend::{
        Result, StoreError,
        sql::{
            lending::lend,
            outcome::{Outcome, Row},
        },
    },
    runtime::{
        clock::{Instant, timeout},
        random,
    },
};

/// The location in the errors of such a request.
pub(super) const PLACE: &str = "on a connection from the pool";

pub(super) struct Lent {
    connection: Box<dyn PoolConnection>,
    /// The time limit of the request.
    until: Instant,
}

/// Why a sent request has no valid reply.
#[derive(Debug)]
pub(super) enum Failure {
    /// Nothing was done: the connection leads to another server or database.
    Elsewhere(String),
    /// Nothing was done: the connection is in a transaction.
    InTransaction,
    /// The outcome is unknown.
    Unknown(String),
}

impl Failure {
    pub(super) fn into_error(self, operation: &'static str) -> StoreError {
        match self {
            Self::Elsewhere(words) => StoreError::Unavailable(words.into()),
            Self::InTransaction => {
                let source = format!(
                    "{PLACE}: the connection has an open transaction; end transactions before you \
                     return connections to the pool"
                )
                .into();
                StoreError::Fatal { operation, source }
            }
            Self::Unknown(words) => StoreError::Unknown(words.into()),
        }
    }
}

impl Lent {
    /// Acquires a connection. An error means that nothing was sent.
    pub(super) async fn of(pool: &UserPool, patience: Duration) -> Result<Self> {
        let (until, lends) = (Instant::now() + patience, Arc::clone(&pool.pool));
        let acquiring = async move { lends.acquire().await };
        let put_back = |connection: Box<dyn PoolConnection>| connection.release();
        let connection = lend(&pool.lingers, patience, acquiring, pool_refused, put_back).await?;
        Ok(Self { connection, until })
    }

    /// Returns the unused connection.
    pub(super) fn release(self) {
        self.connection.release();
    }

    /// Runs one message as a transaction. `beat` is the lowest beat that the server may have.
    pub(super) async fn run(
        mut self,
        session: i64,
        destination: &Destination,
        beat: i64,
        message: &Message,
    ) -> Result<Sent, Failure> {
        let patience = self.until.saturating_duration_since(Instant::now());
        let name = random::id();
        let bracket = Bracket { destination, name, session, beat, patience };
        let text = bracket.around(message);
        let unknown = |words: String| Failure::Unknown(format!("{PLACE}: {words}"));
        let results = match timeout(patience, self.connection.run(&text)).await {
            Ok(Ok(results)) => results,
            Ok(Err(error)) => return Err(unknown(error.chain())),
            Err(_) => return Err(unknown("the server did not reply in time".to_owned())),
        };
        let own = message.statements().len();
        let reply = Reply::of(results, own, name);
        match reply.leaves(own) {
            Leaves::Nothing => self.connection.release(),
            Leaves::Changes => self.undo(&bracket).await,
            Leaves::Doubt => drop(self.connection),
        }
        reply.read(message)
    }

    /// Rolls back and restores the settings, or closes the connection.
    async fn undo(mut self, bracket: &Bracket<'_>) {
        let text = bracket.undo();
        let undone = timeout(bracket.patience / 2, self.connection.run(&text)).await;
        let Ok(Ok(results)) = undone else { return };
        let done = results.into_iter().filter_map(|result| result.into_result().ok());
        if done.count() == AFTER {
            self.connection.release();
        }
    }
}

/// The server's reply.
#[derive(Debug)]
struct Reply {
    outcomes: Vec<Outcome>,
    refused: Option<ServerError>,
    /// The server has confirmed the commit.
    committed: bool,
    /// The reply repeats the name of the request.
    is_own: bool,
}

/// The state in which a request leaves its connection.
#[derive(Debug, PartialEq, Eq)]
enum Leaves {
    Nothing,
    /// Its settings, and perhaps a transaction.
    Changes,
    /// The state is unknown.
    Doubt,
}

impl Reply {
    /// `own` is the number of the message's statements, and `name` that of the request.
    fn of(results: Vec<StatementResult>, own: usize, name: i64) -> Self {
        let (mut outcomes, mut refused) = (Vec::new(), None);
        for result in results {
            match result.into_result() {
                Ok(outcome) => outcomes.push(outcome),
                Err(refusal) => {
                    refused = Some(refusal);
                    break;
                }
            }
        }
        let committed = outcomes.len() > BEFORE + own;
        let check = outcomes.get(CHECK).and_then(Outcome::first);
        let is_own = check.and_then(|row| row.number(CALLED)) == Some(name);
        Self { outcomes, refused, committed, is_own }
    }

    fn leaves(&self, own: usize) -> Leaves {
        match (&self.refused, self.outcomes.len()) {
            (None, done) if self.is_own && done == BEFORE + own + AFTER => Leaves::Nothing,
            (Some(refusal), 0) if is_in_transaction(refusal) => Leaves::Nothing,
            // Otherwise `SET TRANSACTION` would still apply to the next transaction.
            (Some(_), done) if done >= CHECK && !self.committed => Leaves::Changes,
            _ => Leaves::Doubt,
        }
    }

    fn read(mut self, message: &Message) -> Result<Sent, Failure> {
        let done = self.outcomes.len();
        let own = message.statements().len();
        let refused = match self.refused.take().filter(|_| !self.committed) {
            Some(refusal) if done == 0 && is_in_transaction(&refusal) => {
                return Err(Failure::InTransaction);
            }
            Some(refusal) if done == CHECK && error::is_elsewhere(&refusal) => {
                let words = format!(
                    "{PLACE}: the connection is to another server or database, or the server was \
                     restarted"
                );
                return Err(Failure::Elsewhere(words));
            }
            Some(refusal) => {
                let doubt = if done == BEFORE + own { Doubt::Done } else { Doubt::Nothing };
                Some((refusal, doubt))
            }
            None => None,
        };
        if refused.is_none() && !(self.is_own && self.committed) {
            let words = "the pool did not send the statements as one query (COM_QUERY)";
            return Err(Failure::Unknown(format!("{PLACE}: {words}")));
        }
        let check = self.outcomes.get(CHECK).and_then(Outcome::first);
        let is_there = check.map(|row: &Row| row.flag(IS_THERE));
        self.outcomes.drain(..BEFORE.min(done));
        self.outcomes.truncate(own);
        let is_gone = message.is_gone(is_there, &self.outcomes);
        let is_gone = is_gone && refused.is_none();
        Ok(Sent { outcomes: self.outcomes, is_gone, leaves_more: false, refused })
    }
}

/// Fails unless the pool leads to the server and database of the session's own connection.
/// `before`: it has done so before. After a failover the pool may keep connections to the former
/// server for a while.
pub(super) async fn verify(
    pool: &UserPool,
    destination: &Destination,
    beat: i64,
    patience: Duration,
    before: bool,
) -> Result<()> {
    let lent = Lent::of(pool, patience).await?;
    let message = Message::plain(Vec::new());
    let (words, elsewhere) = match lent.run(0, destination, beat, &message).await {
        Ok(Sent { refused: None, .. }) => return Ok(()),
        Ok(Sent { refused: Some((refusal, _)), .. }) => {
            (error::words(PLACE, &refusal), error::is_denied(&refusal))
        }
        Err(Failure::Elsewhere(words)) => (words, !before),
        Err(Failure::Unknown(words)) => (words, false),
        Err(failure @ Failure::InTransaction) => {
            return Err(failure.into_error("checking the pool"));
        }
    };
    Err(match elsewhere {
        true => StoreError::Denied(
            format!(
                "the pool is not connected to the database in the client's URL, or its user lacks \
                 a right: {words}"
            )
            .into(),
        ),
        false => StoreError::Unavailable(words.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the reply to a request of two statements, of which this many were run before one was
    /// refused.
    fn reply(name: i64, done: usize, refused: Option<u16>) -> Reply {
        let check = || ["1", "2", "7", "1", "1"].map(|cell| Some(cell.to_owned())).to_vec();
        let rows = |at| if at == CHECK { vec![check()] } else { Vec::new() };
        let mut results: Vec<_> = (0..done).map(|at| StatementResult::new(rows(at), 0)).collect();
        results.extend(refused.map(|code| StatementResult::refused(code, "HY000", "s3cret")));
        Reply::of(results, 2, name)
    }

    fn message() -> Message {
        Message::plain(vec![String::new(); 2])
    }

    #[test]
    fn connection_goes_back_as_it_was_lent() {
        let all = BEFORE + 2 + AFTER;
        for (done, refused, leaves) in [
            (all, None, Leaves::Nothing),
            (0, Some(1568), Leaves::Nothing),
            (0, Some(1317), Leaves::Doubt),
            (1, Some(1193), Leaves::Doubt),
            (CHECK - 1, Some(1290), Leaves::Doubt),
            (CHECK, Some(1242), Leaves::Changes),
            (BEFORE + 1, Some(1213), Leaves::Changes),
            (BEFORE + 2, Some(1213), Leaves::Changes),
            // The settings could not be restored.
            (all - 1, Some(1317), Leaves::Doubt),
            (all - 1, None, Leaves::Doubt),
        ] {
            assert_eq!(reply(7, done, refused).leaves(2), leaves, "{done} {refused:?}");
        }
        assert_eq!(reply(8, all, None).leaves(2), Leaves::Doubt, "it was sent to another one");
    }

    #[test]
    fn reply_shows_what_was_done() {
        let read = |done, refused| reply(7, done, refused).read(&message());
        let all = BEFORE + 2 + AFTER;
        assert!(matches!(read(all, None), Ok(Sent { refused: None, .. })));
        assert!(matches!(read(all - 1, Some(1317)), Ok(Sent { refused: None, .. })));
        let doubt = |done| match read(done, Some(1213)) {
            Ok(Sent { refused: Some((_, doubt)), .. }) => doubt,
            _ => panic!("{done}"),
        };
        assert_eq!([CHECK, BEFORE + 1].map(doubt), [Doubt::Nothing; 2]);
        assert_eq!(doubt(BEFORE + 2), Doubt::Done);
        assert!(matches!(read(CHECK, Some(1242)), Err(Failure::Elsewhere(_))));
        assert!(matches!(read(0, Some(1568)), Err(Failure::InTransaction)));
        // The driver does not return all results, or those of another request.
        assert!(matches!(read(BEFORE + 1, None), Err(Failure::Unknown(_))));
        assert!(matches!(reply(8, all, None).read(&message()), Err(Failure::Unknown(_))));
    }
}
