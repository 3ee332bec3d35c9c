//! What differs behind a pooler that lends the server's connection to other clients between two
//! transactions, as pgbouncer does with `pool_mode = transaction`.
//!
//! No setting, prepared statement or `LISTEN` outlasts a transaction there, and the pooler hides a
//! crash or a change of the server from its clients. Each request therefore contains its settings,
//! and fails on any run of any server except the one that the session has adopted (`pooled.sql`).
//! Waiters poll: a watch is a row that its notification deletes, and the session reads which rows
//! are left.

use std::{collections::HashSet, time::Duration};

use super::message::Message;
use crate::{
    backend::sql::{outcome::Outcome, watched::What},
    runtime::{clock::Instant, late},
};

/// A pooled connection on which a session works.
#[derive(Clone, Debug)]
pub(super) struct Pooled {
    name: i64,
    /// The run of the server, once there are tables.
    run: Option<i64>,
    patience: Duration,
    /// The connection belongs to the user's pool, and may be in a transaction.
    lent: bool,
}

/// The first statement, because no later one can set it.
const ISOLATION: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;\n";

/// Fails in a transaction that was open before this message, because it might never commit. A
/// transaction that the message has begun has the time of the message. The text is not a number, so
/// it becomes the server's error.
const IN_NO_TRANSACTION: &str = "CASE WHEN now() <> statement_timestamp() THEN \
                                 ('the pool lent a connection in a transaction that began at ' \
                                 || now())::integer END, ";

impl Pooled {
    pub(super) fn new(name: i64, patience: Duration) -> Self {
        Self { name, run: None, patience, lent: false }
    }

    /// Returns the statements for connections of the user's pool.
    pub(super) fn lent(name: i64, patience: Duration) -> Self {
        Self { lent: true, ..Self::new(name, patience) }
    }

    /// Returns the statements for a request that has only this much time.
    pub(super) fn within(&self, patience: Duration) -> Self {
        Self { patience, ..self.clone() }
    }

    pub(super) fn begins_on(&mut self, run: i64) {
        self.run = Some(run);
    }

    /// Returns how long a request waits for a lock, unless it sets another limit.
    pub(super) fn for_locks(&self) -> Duration {
        self.patience / 2
    }

    /// Returns the statements before a request, and their number. `shown` is the lowest position
    /// that the server's log may have, and `for_locks` the time limit for each lock.
    pub(super) fn before(&self, shown: i64, for_locks: Duration) -> (String, usize) {
        let milliseconds = |time: Duration| time.as_millis().clamp(1, 1 << 30);
        match self.run {
            None => (ISOLATION.to_owned(), 1),
            Some(run) => {
                let check = if self.lent { IN_NO_TRANSACTION } else { "" };
                let adopt = format!(
                    "{ISOLATION}SELECT {check}distlock.adopt({}, {run}, {shown}, {}, {});\n",
                    self.name,
                    milliseconds(self.patience),
                    milliseconds(for_locks),
                );
                (adopt, 2)
            }
        }
    }
}

/// Reads which watches a session has.
pub(super) fn watches(session: i64) -> Message {
    format!("SELECT queue, number FROM distlock.watches WHERE session = {session}").into()
}

/// Returns the polled watches whose rows are missing from the reply.
pub(super) fn gone(asked: Vec<What>, reply: Option<&Outcome>) -> Vec<What> {
    let rows = reply.map(Outcome::rows).unwrap_or_default();
    let left = rows.iter().filter_map(|row| {
        Some((row.text(0)?, row.number(1).and_then(|number| u64::try_from(number).ok())?))
    });
    let left: HashSet<_> = left.collect();
    asked.into_iter().filter(|(dir, number)| !left.contains(&(&**dir, *number))).collect()
}

/// When a session polls its watches.
#[derive(Debug, Default)]
pub(super) struct Polling {
    /// The time of the last notification or the start of the last watch.
    since: Option<Instant>,
    due: Option<Instant>,
    /// A poll is running.
    asks: bool,
    /// All watched keys belong to the session.
    own: bool,
}

/// The limits of the pause, which is a quarter of the time without a notification.
const SOONEST: Duration = Duration::from_millis(5);
const LATEST: Duration = Duration::from_millis(350);

/// The pause if only an operator could end what is watched: a holder notices within a second.
const OWN: Duration = Duration::from_millis(800);

impl Polling {
    /// Records the start of a watch. `others`: another session may end some watched entry.
    pub(super) fn begin(&mut self, others: bool) {
        let (now, pause) = (Instant::now(), if others { SOONEST } else { OWN });
        self.own = !others;
        self.since = Some(now);
        self.due = Some(self.due.map_or(now + pause, |due| due.min(now + pause)));
    }

    /// Returns when to poll, if there are watches.
    pub(super) fn due(&mut self, awaited: bool) -> Option<Instant> {
        if !awaited {
            (self.since, self.due) = (None, None);
        } else if self.since.is_none() {
            self.begin(false);
        }
        self.due.filter(|_| !self.asks)
    }

    pub(super) fn ask(&mut self) {
        self.asks = true;
    }

    /// Records the end of a poll. `notified`: something has changed.
    pub(super) fn asked(&mut self, notified: bool, others: bool) {
        let now = Instant::now();
        self.own = !others;
        if notified || self.since.is_none() {
            self.since = Some(now);
        }
        let age = self.since.map_or(Duration::ZERO, |since| now - since);
        self.asks = false;
        let pause = if self.own { OWN } else { (age / 4).clamp(SOONEST, LATEST).mul_f64(late()) };
        self.due = Some(now + pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_brings_its_settings() {
        let mut pooled = Pooled::new(7, Duration::from_secs(2));
        let second = Duration::from_secs(1);
        assert_eq!(pooled.before(0, second), (ISOLATION.to_owned(), 1));
        pooled.begins_on(9);
        let (before, statements) = pooled.before(5, second);
        assert!(before.starts_with(ISOLATION) && statements == 2);
        assert!(before.ends_with("SELECT distlock.adopt(7, 9, 5, 2000, 1000);\n"), "{before}");
        let (before, _) = pooled.before(5, Duration::ZERO);
        assert!(before.ends_with(", 1);\n"), "zero would be no limit: {before}");
        let mut lent = Pooled::lent(7, second);
        lent.begins_on(9);
        let (before, statements) = lent.within(Duration::from_millis(40)).before(5, second);
        assert!(before.contains("statement_timestamp()") && statements == 2, "{before}");
        assert!(before.ends_with("distlock.adopt(7, 9, 5, 40, 1000);\n"), "{before}");
    }

    #[test]
    fn entries_missing_from_poll_are_deleted() {
        let what = |dir: &str, number| -> What { (dir.into(), number) };
        let asked = || vec![what("/a", 0), what("/a", 3), what("/b", 3)];
        let left = Outcome::of_one(&["/a", "3"]);
        assert_eq!(gone(asked(), Some(&left)), [what("/a", 0), what("/b", 3)]);
        assert_eq!(gone(asked(), None), asked());
    }

    #[tokio::test(start_paused = true)]
    async fn poll_interval_grows_while_nothing_changes() {
        let mut polling = Polling::default();
        assert_eq!(polling.due(false), None);
        polling.begin(true);
        let began = Instant::now();
        let mut times = 0;
        while began.elapsed() < Duration::from_secs(10) {
            tokio::time::sleep_until(polling.due(true).unwrap()).await;
            polling.ask();
            assert_eq!(polling.due(true), None, "one at a time");
            polling.asked(false, true);
            times += 1;
        }
        assert!((25..=70).contains(&times), "{times}");
        polling.begin(true);
        assert!(polling.due(true).unwrap() <= Instant::now() + SOONEST);
        assert_eq!(polling.due(false), None, "nothing is watched");
        assert_eq!(polling.due(true), Some(Instant::now() + OWN), "a key of its own");
    }
}
