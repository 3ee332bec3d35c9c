//! Events of the keys of plain locks, recorded for the model to replay (`docs/design/model.md`).

use std::{collections::BTreeMap, fmt::Write as _};

use crate::server::Key;

/// Why a key was deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum What {
    #[default]
    Left,
    /// By an operator.
    Deleted,
    /// Its session expired.
    Expired,
    /// Its client closed the session.
    Closed,
}

/// The events of a history, one per line. `tests/model/src/queue/replay/trace.rs` describes them.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    text: String,
    /// The names of sessions and attempts, numbered to keep the text short.
    names: BTreeMap<String, usize>,
}

impl Trace {
    pub(crate) fn put(&mut self, key: &Key) {
        let Key { name, dir, token, session, ticket, .. } = key;
        let Some(queue) = plain(dir) else { return };
        // Each stranger counts as a session and an attempt of its own.
        let (session, attempt) = match session {
            0 => (name.to_string(), name.to_string()),
            session => (session.to_string(), format!("{session} {ticket}")),
        };
        let (session, attempt) = (self.number(session), self.number(attempt));
        self.add(format_args!("put {queue} {token} {session} {session} {attempt}"));
    }

    fn number(&mut self, name: String) -> usize {
        let next = self.names.len();
        *self.names.entry(name).or_insert(next)
    }

    pub(crate) fn deleted(&mut self, key: &Key, what: What) {
        if plain(&key.dir).is_some() {
            self.add(format_args!("{} {}", format!("{what:?}").to_lowercase(), key.token));
        }
    }

    pub(crate) fn granted(&mut self, dir: &str, token: u64) {
        if plain(dir).is_some() {
            self.add(format_args!("granted - {token} - -"));
        }
    }

    fn add(&mut self, line: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.text, "{line}"); // writing to a string never fails
    }

    /// Returns the trace with a title. Without events there is none.
    pub(crate) fn text(&self, of: &str) -> String {
        if self.text.is_empty() { String::new() } else { format!("# {of}\n{}\n", self.text) }
    }
}

/// Returns the name of a plain lock. Other queues have labels or gates, or no waiters.
fn plain(dir: &str) -> Option<&str> {
    dir.strip_prefix("/sim/").filter(|name| name.starts_with("name-") && !name.contains('!'))
}
