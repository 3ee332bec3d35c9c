//! One request, and what goes before it: the server's clock is read, and dead sessions are ended.

use std::ops::Range;

use super::{
    ending::{self, is_there},
    time::{BEAT, NOW},
};
use crate::backend::sql::{outcome::Outcome, server_clock::ClockTrust, step::Step, watched::What};

/// What is asked of the server in one request: some statements, in one transaction or each by
/// itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Message {
    statements: Vec<String>,
    pub(super) transaction: bool,
    /// Nothing is asked but these statements.
    pub(super) bare: bool,
    /// Sessions that are over are ended before.
    pub(super) sweeps: bool,
    /// Of these, what dead sessions have left is removed first.
    first: Vec<What>,
    /// Its first statement finds no row if the session was put away; then the others do nothing.
    pub(super) enters: bool,
    /// Whether the session is there is read with the clock.
    pub(super) looks_for_session: bool,
    /// It can be asked with others of its kind: see `batch.rs`.
    pub(super) step: Option<Step>,
    /// It goes before others that wait.
    pub(super) urgent: bool,
    /// Its last statement tells whether there is more of the same to do.
    pub(super) tidies: bool,
    /// It goes by the session's own connection in any case.
    own: bool,
    /// The queues that it changes.
    pub(super) queues: Vec<String>,
}

impl Message {
    /// Each statement by itself.
    pub(super) fn plain(statements: Vec<String>) -> Self {
        Self { statements, ..Self::default() }
    }

    /// Each statement by itself, without a look at the clock: the server does nothing else.
    pub(super) fn bare(statements: Vec<String>) -> Self {
        Self { statements, bare: true, ..Self::default() }
    }

    /// All of its statements or none.
    pub(super) fn whole(self) -> Self {
        Self { transaction: true, ..self }
    }

    /// All of them or none.
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

    /// Whether it goes by the user's pool if there is one.
    pub(super) fn goes_by_pool(&self) -> bool {
        !self.own && !self.urgent && !self.statements.is_empty()
    }

    /// Whether the session was put away, by what was found with the clock and by the outcomes of
    /// the message's own statements.
    pub(super) fn is_gone(&self, is_there: Option<bool>, outcomes: &[Outcome]) -> bool {
        self.looks_for_session && is_there == Some(false)
            || self.enters && outcomes.first().is_none_or(|outcome| outcome.first().is_none())
    }

    /// As it is sent; a session that is to sweep has this to go by. `clocks`: there are several
    /// servers that write, each with a clock of its own.
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

/// A request as it is sent. The first of its outcomes is what the clock shows, how far the beats
/// are, and what the connection is called.
pub(super) struct Batch {
    pub(super) text: String,
    /// So many outcomes come before the message's own, of which there are so many.
    pub(super) before: usize,
    pub(super) own: usize,
    /// The outcomes that tell how much was removed of what ended sessions have left.
    removals: Range<usize>,
    /// How many statements there are.
    all: usize,
}

impl Batch {
    /// Whether there may be more to remove than one request does.
    pub(super) fn leaves_more(&self, outcomes: &[Outcome]) -> bool {
        let removals = outcomes.get(self.removals.clone()).unwrap_or_default();
        removals.iter().any(|outcome| outcome.count >= ending::ROWS)
    }

    /// What is to be thought of a statement that was refused after so many outcomes.
    pub(super) fn doubt(&self, outcomes: usize, transaction: bool) -> Doubt {
        match transaction {
            true if outcomes + 1 == self.all => Doubt::Done,
            false if outcomes >= self.before => Doubt::Ended,
            _ => Doubt::Nothing,
        }
    }
}

/// What may have been done of a message that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// Nothing: its transaction had not come to its end.
    Nothing,
    /// All of it, if the error is that the connection or the server ends.
    Ended,
    /// All of it, unless the error says that it was undone: it was refused at its very end.
    Done,
}

/// What the connection is called.
pub(super) const CONNECTION: &str = "@distlock_connection";

/// The epoch of the tables, as the connection has found it. A connection that a pooler has reset
/// has none.
pub(super) const EPOCH: &str = "@distlock_epoch";

/// Which column of a request's first outcome has that.
pub(super) const CALLED: usize = 2;

/// Which column has whether the session is there, if that is asked.
pub(super) const IS_THERE: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_before_the_end_was_not_done() {
        let two = || vec!["SELECT 1".to_owned(), "SELECT 2".to_owned()];
        let (all, each) = (Message::transaction(two()), Message::plain(two()));
        let doubts = |message: &Message| -> Vec<_> {
            let batch = message.batch(1, None, false);
            (0..batch.all).map(|outcomes| batch.doubt(outcomes, message.transaction)).collect()
        };
        // The clock, the begin, the two, and the end.
        let nothing = Doubt::Nothing;
        assert_eq!(doubts(&all), [nothing, nothing, nothing, nothing, Doubt::Done]);
        assert_eq!(doubts(&each), [nothing, Doubt::Ended, Doubt::Ended]);
    }
}
