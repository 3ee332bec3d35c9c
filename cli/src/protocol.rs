//! What `distlock` and its guardian say to each other, a line each.

use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::process_group::Ended;

/// To the guardian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The lock is certain until then, on [`clock::now`](crate::clock::now).
    Deadline(Duration),
    /// Pass this signal on.
    Signal(i32),
    /// The lock is lost.
    Kill,
}

/// Why a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cause {
    /// It was done.
    Itself,
    /// The deadline was near.
    Deadline,
    /// By an order.
    Ordered,
    /// `distlock` itself is gone.
    Abandoned,
}

/// From the guardian.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The command runs, and has this number.
    Started(i32),
    /// It could not be started. With the exit code for that.
    Failed(u8, String),
    /// It has ended, and nothing lives of all that it started.
    Ended(Ended, Cause),
}

/// A message, as a line.
pub(crate) fn encoded(message: &impl Serialize) -> String {
    // All that a message is made of can be written.
    serde_json::to_string(message).unwrap_or_default() + "\n"
}

/// The message of a line.
pub(crate) fn decoded<T: DeserializeOwned>(line: &str) -> Option<T> {
    serde_json::from_str(line).ok()
}

/// Lines, from bytes as they come.
#[derive(Debug, Default)]
pub(crate) struct Lines(Vec<u8>);

impl Lines {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next whole one.
    pub(crate) fn next(&mut self) -> Option<String> {
        let end = self.0.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.0.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line[..end]).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocol_messages_round_trip() {
        for order in [Order::Deadline(Duration::new(1_000_000, 5)), Order::Signal(15), Order::Kill]
        {
            assert_eq!(decoded(encoded(&order).trim_end()), Some(order));
        }
        let reports = [
            Report::Started(17),
            Report::Failed(127, "no such\nfile".into()),
            Report::Ended(Ended::Code(3), Cause::Itself),
            Report::Ended(Ended::Signal(9), Cause::Deadline),
            Report::Ended(Ended::Signal(9), Cause::Abandoned),
        ];
        let mut lines = Lines::default();
        for report in &reports {
            lines.push(encoded(report).as_bytes());
        }
        for report in reports {
            assert_eq!(lines.next().as_deref().and_then(decoded), Some(report));
        }
        assert_eq!(lines.next(), None);
        assert_eq!(decoded::<Order>("{\"Deadline\":\"soon\"}"), None);
        assert_eq!(decoded::<Report>("\"Ended\""), None);
    }
}
