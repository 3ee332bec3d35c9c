//! Replies of the scripts.

use redis::Value;

use super::message::other_version;

use crate::{
    backend::{
        Result, StoreError,
        resp::is_denied_in_script,
        sql::{
            outcome::{Outcome, Row, hexadecimal},
            replies::nonsense,
        },
    },
    lost::LostReason,
};

/// The status of a reply whose script has reached its limit of work and has more to do.
const MORE: &str = "more";

/// The reply of a script: a header, a status, and an outcome for each statement. The header has the
/// server's time, the beat, the session's number of writes, whether the script wrote, and the
/// highest number that the server has issued.
#[derive(Debug)]
pub(super) struct Answer {
    /// The server's time and the beat, as an outcome.
    pub(super) clock: [Outcome; 1],
    writes: u64,
    /// The script wrote something for the session.
    pub(super) written: bool,
    /// The highest number that the server has issued to any session.
    pub(super) newest: u64,
    status: String,
    outcomes: Vec<Outcome>,
}

/// Returns the error for a server that has lost confirmed writes of the session. `is_there`: the
/// request was a write of data, and the server has that write.
pub(super) fn forgotten(is_there: bool) -> StoreError {
    match is_there {
        true => StoreError::Unknown("the server has lost confirmed writes".into()),
        false => StoreError::SessionGone(LostReason::SessionExpired),
    }
}

impl Answer {
    pub(super) fn read(value: Value) -> Result<Self> {
        let Value::Array(parts) = value else { return Err(nonsense()) };
        let mut parts = parts.into_iter();
        let clock = parts.next().and_then(row).ok_or_else(nonsense)?;
        let status = parts.next().and_then(text).ok_or_else(nonsense)?;
        let writes = clock.number(2).and_then(|writes| u64::try_from(writes).ok());
        Ok(Self {
            writes: writes.ok_or_else(nonsense)?,
            written: clock.flag(3),
            newest: clock.number(4).and_then(|newest| u64::try_from(newest).ok()).unwrap_or(0),
            clock: [Outcome::new(vec![clock], 1)],
            status,
            outcomes: parts.map(outcome).collect::<Option<_>>().ok_or_else(nonsense)?,
        })
    }

    /// Returns the session's number of writes. Returns `None` if the server has lost some of the
    /// writes since an earlier reply reported `known`.
    pub(super) fn writes(&self, known: u64) -> Option<u64> {
        // Not all scripts report it.
        let least = known.saturating_add(u64::from(self.written));
        let complete = self.writes == 0 || self.writes >= least;
        complete.then_some(self.writes)
    }

    /// Returns `true` if the server has more of the same work to do.
    pub(super) fn is_unfinished(&self) -> bool {
        self.status == MORE
    }

    /// Returns the outcomes of the request, or its error.
    pub(super) fn outcomes(self, operation: &'static str) -> Result<Vec<Outcome>> {
        match self.status.as_str() {
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

    /// Returns the error for a gate's key that cannot be used.
    fn gate(&self, operation: &'static str) -> StoreError {
        let row = self.outcomes.first().and_then(Outcome::first);
        let [key, wrong] = [0, 1].map(|at| row.and_then(|row| row.text(at)).unwrap_or_default());
        let reason = format!(
            "the key {key}, which other libraries use as this lock, cannot be used: {wrong}"
        );
        match is_denied_in_script(wrong) {
            true => StoreError::Denied(reason.into()),
            false => StoreError::Fatal { operation, source: reason.into() },
        }
    }
}

/// Reads a count and rows.
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

/// Reads a text. A value in an array of its own may have any bytes, and becomes hexadecimal digits.
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

    fn answer(status: &str, outcomes: Vec<Value>) -> Value {
        let clock = Value::Array(["17", "3", "5", "1", "40"].map(bulk).to_vec());
        Value::Array([vec![clock, bulk(status)], outcomes].concat())
    }

    /// A guarded write that the server has made is not rejected as if its lock were lost.
    #[test]
    fn applied_write_is_not_reported_as_refused() {
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
        // The session has written a fifth time by now.
        assert_eq!((read.writes(4), read.writes(5), read.writes(6)), (Some(5), None, None));
        let outcomes = read.outcomes("test").unwrap();
        let row = outcomes[0].first().unwrap();
        assert_eq!((row.text(0), row.text(1), row.number(2)), (Some("a"), None, Some(7)));
        assert_eq!(row.bytes(3), Some(vec![0, b'z']));
        assert_eq!((outcomes[1].count, outcomes[1].rows().len()), (0, 0));
    }

    #[test]
    fn refusals_are_errors() {
        let outcomes = |status| Answer::read(answer(status, Vec::new())).unwrap().outcomes("test");
        assert!(matches!(outcomes("gone"), Err(StoreError::SessionGone(_))));
        assert!(outcomes("version 3").unwrap_err().reason().contains("have version 3"));
        assert!(outcomes("more").unwrap().is_empty());
        let gate = |wrong| {
            let row = Value::Array(vec![bulk("a"), bulk(wrong)]);
            let outcome = Value::Array(vec![Value::Int(1), row]);
            Answer::read(answer("gate", vec![outcome])).unwrap().outcomes("test").unwrap_err()
        };
        let error = gate("WRONGTYPE it is a list");
        assert!(matches!(error, StoreError::Fatal { operation: "test", .. }), "{error:?}");
        assert!(error.reason().contains("the key a") && error.reason().contains("a list"));
        for denied in [
            "ERR ACL failure in script: No permissions",
            "ERR The user executing the script can't access at least one of the keys",
        ] {
            assert!(matches!(gate(denied), StoreError::Denied(_)), "{denied}");
        }
        for bad in [Value::Nil, Value::Array(Vec::new()), answer("ok", vec![Value::Int(1)])] {
            assert!(matches!(Answer::read(bad), Err(StoreError::Unknown(_))));
        }
    }
}
