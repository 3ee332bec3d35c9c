//! A request, and what precedes it: the server's clock is read, and expired sessions are ended.

use std::ops::Range;

use super::{
    ending::{self, is_there},
    time::{BEAT, NOW},
};
use crate::backend::sql::{outcome::Outcome, server_clock::ClockTrust, step::Step, watched::What};

/// The statements of one request, in one transaction or each by itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Message {
    statements: Vec<String>,
    pub(super) transaction: bool,
    /// The request does not read the clock.
    pub(super) bare: bool,
    /// Expired sessions are ended before.
    pub(super) sweeps: bool,
    /// The entries of dead sessions that are removed first.
    first: Vec<What>,
    /// The first statement finds no row if the session was removed, and the others then do nothing.
    pub(super) enters: bool,
    /// The clock's statement also reads whether the session is present.
    pub(super) looks_for_session: bool,
    /// The request can be sent with others of its kind: see `alone.rs`.
    pub(super) step: Option<Step>,
    /// The request precedes others that wait.
    pub(super) urgent: bool,
    /// The last statement returns whether there is more to tidy.
    pub(super) tidies: bool,
    /// The request always uses the session's own connection.
    own: bool,
    /// The queues that it changes.
    pub(super) queues: Vec<String>,
}

impl Message {
    /// Creates a request with each statement by itself.
    pub(super) fn plain(statements: Vec<String>) -> Self {
        Self { statements, ..Self::default() }
    }

    /// Creates a request with each statement by itself and without a reading of the clock.
    pub(super) fn bare(statements: Vec<String>) -> Self {
        Self { statements, bare: true, ..Self::default() }
    }

    /// Makes all of its statements one transaction.
    pub(super) fn whole(self) -> Self {
        Self { transaction: true, ..self }
    }

    /// Creates a transaction of all statements.
    pub(super) fn transaction(statements: Vec<String>) -> Self {
        Self { statements, transaction: true, ..Self::default() }
    }

    pub(super) fn entering(self) -> Self {
        Self { enters: true, ..self }
    }

    pub(super) fn of_session(self) -> Self {
        Self { looks_for_session: true, ..self }
    }

    pub(super) fn step(self, step: Option<Step>) -> Self {
        Self { step, ..self }
    }

    pub(super) fn sweeping(self) -> Self {
        Self { sweeps: true, ..self }
    }

    pub(super) fn sweeping_first(self, first: &[What]) -> Self {
        Self { sweeps: true, first: first.to_vec(), ..self }
    }

    pub(super) fn tidying(self) -> Self {
        Self { tidies: true, ..self }
    }

    pub(super) fn urgent(self) -> Self {
        Self { urgent: true, ..self }
    }

    pub(super) fn by_own_connection(self) -> Self {
        Self { own: true, ..self }
    }

    pub(super) fn about(self, queues: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { queues: queues.into_iter().map(Into::into).collect(), ..self }
    }

    pub(super) fn statements(&self) -> &[String] {
        &self.statements
    }

    /// Returns `true` if the request uses the user's pool where there is one.
    pub(super) fn goes_by_pool(&self) -> bool {
        !self.own && !self.urgent && !self.statements.is_empty()
    }

    /// Returns `true` if the session was removed, as the clock's statement or the message's own
    /// statements show.
    pub(super) fn is_gone(&self, is_there: Option<bool>, outcomes: &[Outcome]) -> bool {
        self.looks_for_session && is_there == Some(false)
            || self.enters && outcomes.first().is_none_or(|outcome| outcome.first().is_none())
    }

    /// Returns the text to send. A request that sweeps uses this evidence. `clocks`: several
    /// servers write, each with a clock of its own.
    pub(super) fn batch(
        &self,
        session: i64,
        clock_trust: Option<&ClockTrust>,
        clocks: bool,
    ) -> Batch {
        let is_there = match self.looks_for_session {
            false => String::new(),
            true => format!(", {}", is_there(session)),
        };
        let mut all = match self.bare {
            false => vec![format!("SELECT {NOW}, {BEAT}, {CONNECTION}{is_there}")],
            true => Vec::new(),
        };
        let mut removals = 0..0;
        if let Some(clock_trust) = clock_trust {
            all.extend(ending::sweep(session, clock_trust, clocks, &self.first));
            removals = all.len().saturating_sub(ending::REMOVALS)..all.len();
        }
        if self.transaction {
            all.push("START TRANSACTION".to_owned());
        }
        let before = all.len();
        all.extend_from_slice(&self.statements);
        if self.transaction {
            all.push("COMMIT".to_owned());
        }
        Batch {
            text: all.join(";\n"),
            before,
            removals,
            own: self.statements.len(),
            all: all.len(),
        }
    }
}

/// A request as it is sent. Unless it is bare, its first outcome contains the clock, the beat and
/// the name of the connection.
pub(super) struct Batch {
    pub(super) text: String,
    /// The number of outcomes before the message's own; `own` is the number of those.
    pub(super) before: usize,
    pub(super) own: usize,
    /// The outcomes whose counts show how much of ended sessions was removed.
    removals: Range<usize>,
    /// The number of statements.
    all: usize,
}

impl Batch {
    /// Returns `true` if one request may not have removed all.
    pub(super) fn leaves_more(&self, outcomes: &[Outcome]) -> bool {
        let removals = outcomes.get(self.removals.clone()).unwrap_or_default();
        removals.iter().any(|outcome| outcome.count >= ending::ROWS)
    }

    /// Returns what may have been applied when a statement was refused after this many outcomes.
    pub(super) fn doubt(&self, outcomes: usize, transaction: bool) -> Doubt {
        match transaction {
            true if outcomes + 1 == self.all => Doubt::Done,
            false if outcomes >= self.before => Doubt::Ended,
            _ => Doubt::Nothing,
        }
    }
}

/// What a refused message may have applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// Nothing: its transaction did not reach its end.
    Nothing,
    /// All of it, if the error is the end of the connection or of the server.
    Ended,
    /// All of it, unless the error says that it was rolled back: the commit was refused.
    Done,
}

/// The variable with the connection's name.
pub(super) const CONNECTION: &str = "@distlock_connection";

/// The variable with the epoch of the tables. It is unset on a connection that a pooler has reset.
pub(super) const EPOCH: &str = "@distlock_epoch";

/// The column of a request's first outcome with that name.
pub(super) const CALLED: usize = 2;

/// The column with whether the session is present, if it is read.
pub(super) const IS_THERE: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{
        Write,
        mysql::statements::MysqlStatements,
        sql::{key::Place, statements::Statements as _},
    };

    #[test]
    fn renewals_never_wait_for_the_users_pool() {
        let statements = MysqlStatements { session: 1 };
        for (by_pool, message) in [
            (false, statements.keep_alive(&[])),
            (false, statements.close()),
            (false, Message::default().sweeping()),
            (true, statements.read("/a/b")),
            (true, statements.queues("/a")),
        ] {
            assert_eq!(message.goes_by_pool(), by_pool, "{message:?}");
        }
    }

    /// Its reply is that the lock is not held.
    #[test]
    fn guarded_write_of_an_ended_session_is_not_applied() {
        let guard = Place { dir: "/a", number: 8 };
        let write = Write::Put { key: "/b/c".to_owned(), value: Vec::new() };
        let message = MysqlStatements { session: 7 }.commit(&[guard], &[write]);
        let decides = |sql: &&String| sql.ends_with("INTO @distlock_held");
        let decides = message.statements().iter().find(decides);
        assert!(decides.is_some_and(|sql| sql.contains(&is_there(7))), "{message:?}");
    }

    #[test]
    fn request_refused_before_its_commit_is_not_applied() {
        let two = || vec!["SELECT 1".to_owned(), "SELECT 2".to_owned()];
        let (all, each) = (Message::transaction(two()), Message::plain(two()));
        let doubts = |message: &Message| -> Vec<_> {
            let batch = message.batch(1, None, false);
            (0..batch.all).map(|outcomes| batch.doubt(outcomes, message.transaction)).collect()
        };
        // The clock, the start, both statements, and the end.
        let nothing = Doubt::Nothing;
        assert_eq!(doubts(&all), [nothing, nothing, nothing, nothing, Doubt::Done]);
        assert_eq!(doubts(&each), [nothing, Doubt::Ended, Doubt::Ended]);
    }
}
