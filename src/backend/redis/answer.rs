//! What a script answers.

use redis::Value;

use super::message::other_version;

use crate::{
    backend::{
        Result, StoreError,
        sql::{
            outcome::{Outcome, Row, hexadecimal},
            replies::nonsense,
        },
    },
    lost::LostReason,
};

/// The word of a script that has done as much as one script may, and has more to do.
const MORE: &str = "more";

/// It begins with what the clock shows, how far the beats are and how often the session has
/// written, and whether it has now, and the highest number that was given; then a word, and an
/// outcome for each statement.
#[derive(Debug)]
pub(super) struct Answer {
    /// The first two of these, as an outcome.
    pub(super) clock: [Outcome; 1],
    writes: u64,
    /// The script has changed something of the session's.
    pub(super) written: bool,
    /// The highest number that was given to anybody.
    pub(super) newest: u64,
    word: String,
    outcomes: Vec<Outcome>,
}

/// What it means that the server has lost some of what the session has written. `is_there`: what
/// was asked for was a write of data, which it has all the same.
pub(super) fn forgotten(is_there: bool) -> StoreError {
    match is_there {
        true => StoreError::Unknown("the server has lost what it had confirmed".into()),
        false => StoreError::SessionGone(LostReason::SessionExpired),
    }
}

impl Answer {
    pub(super) fn read(value: Value) -> Result<Self> {
        let Value::Array(parts) = value else { return Err(nonsense()) };
        let mut parts = parts.into_iter();
        let clock = parts.next().and_then(row).ok_or_else(nonsense)?;
        let word = parts.next().and_then(text).ok_or_else(nonsense)?;
        let writes = clock.number(2).and_then(|writes| u64::try_from(writes).ok());
        Ok(Self {
            writes: writes.ok_or_else(nonsense)?,
            written: clock.flag(3),
            newest: clock.number(4).and_then(|newest| u64::try_from(newest).ok()).unwrap_or(0),
            clock: [Outcome::new(vec![clock], 1)],
            word,
            outcomes: parts.map(outcome).collect::<Option<_>>().ok_or_else(nonsense)?,
        })
    }

    /// How often the session has written, of which an earlier answer told this number: `None` if
    /// the server has lost some of that since.
    pub(super) fn writes(&self, known: u64) -> Option<u64> {
        // Not all scripts tell it.
        let told = self.writes == 0 || self.writes >= known.saturating_add(u64::from(self.written));
        told.then_some(self.writes)
    }

    /// Whether the server has more of the same to do.
    pub(super) fn is_unfinished(&self) -> bool {
        self.word == MORE
    }

    /// What was asked for, or why not.
    pub(super) fn outcomes(self, operation: &'static str) -> Result<Vec<Outcome>> {
        match self.word.as_str() {
            "ok" | MORE => Ok(self.outcomes),
            "gone" => Err(StoreError::SessionGone(LostReason::SessionExpired)),
            "gate" => Err(self.gate(operation)),
            other => {
                let version = other.strip_prefix("version ").unwrap_or(other);
                let source = other_version("{distlock:NAMESPACE}", version).into();
                Err(StoreError::Fatal { operation, source })
            }
        }
    }

    /// What is wrong with the key that others take for a lock.
    fn gate(&self, operation: &'static str) -> StoreError {
        let row = self.outcomes.first().and_then(Outcome::first);
        let [key, wrong] = [0, 1].map(|at| row.and_then(|row| row.text(at)).unwrap_or_default());
        let told = format!("the key {key}, which others take for this lock: {wrong}");
        // Within a script it is no `NOPERM`.
        match wrong.contains("ACL failure") {
            true => StoreError::Denied(told.into()),
            false => StoreError::Fatal { operation, source: told.into() },
        }
    }
}

/// A count, and rows.
fn outcome(value: Value) -> Option<Outcome> {
    let Value::Array(parts) = value else { return None };
    let mut parts = parts.into_iter();
    let Value::Int(count) = parts.next()? else { return None };
    Some(Outcome::new(parts.map(row).collect::<Option<_>>()?, u64::try_from(count).ok()?))
}

fn row(value: Value) -> Option<Row> {
    let Value::Array(cells) = value else { return None };
    let cells = cells.into_iter().map(|cell| match cell {
        Value::Nil => Some(None),
        cell => text(cell).map(Some),
    });
    Some(Row::new(cells.collect::<Option<_>>()?))
}

/// What is in an array of its own may be any bytes, and is written with hexadecimal digits.
fn text(value: Value) -> Option<String> {
    match value {
        Value::Int(number) => Some(number.to_string()),
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        Value::Array(parts) => match <[Value; 1]>::try_from(parts) {
            Ok([Value::BulkString(bytes)]) => Some(hexadecimal(&bytes)),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn answer(word: &str, outcomes: Vec<Value>) -> Value {
        let clock = Value::Array(["17", "3", "5", "1", "40"].map(bulk).to_vec());
        Value::Array([vec![clock, bulk(word)], outcomes].concat())
    }

    /// A guarded write that the server has made is not refused as one whose lock was lost.
    #[test]
    fn a_write_that_is_there_is_not_refused() {
        assert!(matches!(forgotten(true), StoreError::Unknown(_)));
        assert!(matches!(forgotten(false), StoreError::SessionGone(_)));
    }

    #[test]
    fn outcomes_are_read() {
        let cells = vec![bulk("a"), Value::Nil, Value::Int(7), Value::Array(vec![bulk("\u{0}z")])];
        let read = Answer::read(answer(
            "ok",
            vec![
                Value::Array(vec![Value::Int(1), Value::Array(cells)]),
                Value::Array(vec![Value::Int(0)]),
            ],
        ));
        let read = read.unwrap();
        assert_eq!(read.clock[0].first().unwrap().number(1), Some(3));
        assert_eq!(read.newest, 40);
        // It has written a fifth time now.
        assert_eq!((read.writes(4), read.writes(5), read.writes(6)), (Some(5), None, None));
        let outcomes = read.outcomes("test").unwrap();
        let row = outcomes[0].first().unwrap();
        assert_eq!((row.text(0), row.text(1), row.number(2)), (Some("a"), None, Some(7)));
        assert_eq!(row.bytes(3), Some(vec![0, b'z']));
        assert_eq!((outcomes[1].count, outcomes[1].rows().len()), (0, 0));
    }

    #[test]
    fn refusals_are_told() {
        let told = |word| Answer::read(answer(word, Vec::new())).unwrap().outcomes("test");
        assert!(matches!(told("gone"), Err(StoreError::SessionGone(_))));
        assert!(told("version 3").unwrap_err().reason().contains("of version 3"));
        assert!(told("more").unwrap().is_empty());
        let gate = |wrong| {
            let row = Value::Array(vec![bulk("a"), bulk(wrong)]);
            let outcome = Value::Array(vec![Value::Int(1), row]);
            Answer::read(answer("gate", vec![outcome])).unwrap().outcomes("test").unwrap_err()
        };
        let error = gate("WRONGTYPE its key is a list");
        assert!(matches!(error, StoreError::Fatal { operation: "test", .. }), "{error:?}");
        assert!(error.reason().contains("the key a") && error.reason().contains("a list"));
        assert!(matches!(gate("ERR ACL failure in script: No permissions"), StoreError::Denied(_)));
        for bad in [Value::Nil, Value::Array(Vec::new()), answer("ok", vec![Value::Int(1)])] {
            assert!(matches!(Answer::read(bad), Err(StoreError::Unknown(_))));
        }
    }
}
