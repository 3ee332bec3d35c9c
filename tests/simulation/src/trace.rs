//! Events of the keys of plain locks, recorded for the model to replay (`docs/design/model.md`).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    sync::Arc,
};

/// The model has three clients, and room for seven keys.
const ATTEMPTS: usize = 3;
const KEYS: usize = 7;

/// What happened to a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum What {
    /// By an attempt, with its session and ticket.
    Put,
    #[default]
    Left,
    /// By an operator.
    Deleted,
    /// Its session expired.
    Expired,
    /// Its client closed the session.
    Closed,
    Granted,
}

#[derive(Debug)]
struct Event {
    dir: Arc<str>,
    key: Arc<str>,
    attempt: String,
    what: What,
}

#[derive(Debug, Default)]
pub(crate) struct Trace(Vec<Event>);

/// A queue from its first key until it was empty.
#[derive(Default)]
struct Stretch {
    attempts: Vec<String>,
    keys: BTreeMap<Arc<str>, usize>,
    there: BTreeSet<Arc<str>>,
    count: usize,
    text: String,
}

impl Trace {
    pub(crate) fn add(&mut self, dir: &Arc<str>, key: &Arc<str>, attempt: String, what: What) {
        // Other queues have labels or gates, or no waiters.
        if dir.starts_with("/sim/name-") && !dir.contains('!') {
            let (dir, key) = (Arc::clone(dir), Arc::clone(key));
            self.0.push(Event { dir, key, attempt, what });
        }
    }

    /// Returns each stretch that fits into the model, one event per line.
    pub(crate) fn text(&self, of: &str) -> String {
        let (mut text, mut stretches) = (String::new(), BTreeMap::<_, Stretch>::new());
        for Event { dir, key, attempt, what } in &self.0 {
            let stretch = stretches.entry(Arc::clone(dir)).or_default();
            stretch.take(key, attempt, *what);
            if *what != What::Put && *what != What::Granted && stretch.there.is_empty() {
                let stretch = std::mem::take(stretch);
                if (2..=ATTEMPTS).contains(&stretch.attempts.len()) && stretch.count <= KEYS {
                    let _ = writeln!(text, "# {of} {dir}\n{}", stretch.text);
                }
            }
        }
        text
    }
}

impl Stretch {
    fn take(&mut self, key: &Arc<str>, attempt: &str, what: What) {
        if what == What::Put {
            self.count += 1;
            self.keys.insert(Arc::clone(key), self.count);
            self.there.insert(Arc::clone(key));
            if !self.attempts.iter().any(|known| known == attempt) {
                self.attempts.push(attempt.to_owned());
            }
            let place = self.attempts.iter().position(|known| known == attempt).unwrap_or(0) + 1;
            let _ = writeln!(self.text, "put {place} {}", self.count);
            return;
        }
        if what != What::Granted {
            self.there.remove(key);
        }
        // A grant that is reported after the key was deleted is not part of this stretch.
        let Some(number) = self.keys.get(key) else { return };
        let _ = writeln!(self.text, "{} {number}", format!("{what:?}").to_lowercase());
    }
}
