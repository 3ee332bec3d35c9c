//! The messages between `distlock` and its guardian, one in each line.

use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::process_group::Ended;

/// A message to the guardian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The lock is held until this time of [`clock::now`](crate::clock::now).
    Deadline(Duration),
    /// Forward this signal to the command.
    Signal(i32),
    /// Kill the command, because the lock is lost.
    Kill,
}

/// Why a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cause {
    /// It exited by itself.
    Itself,
    /// The guardian ended it before the deadline.
    Deadline,
    /// `distlock` ordered the guardian to kill it.
    Ordered,
    /// The guardian ended it, because `distlock` had ended.
    Abandoned,
}

/// A message from the guardian.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The command was started with this process ID.
    Started(i32),
    /// The command could not be started: the exit code, and the reason.
    Failed(u8, String),
    /// The command and all processes that it started have ended.
    Ended(Ended, Cause),
}

/// Encodes a message as a line.
pub(crate) fn encoded(message: &impl Serialize) -> String {
    // Serialization cannot fail for these types.
    serde_json::to_string(message).unwrap_or_default() + "\n"
}

/// Decodes the message of a line.
pub(crate) fn decoded<T: DeserializeOwned>(line: &str) -> Option<T> {
    serde_json::from_str(line).ok()
}

/// Splits received bytes into lines.
#[derive(Debug, Default)]
pub(crate) struct Lines(Vec<u8>);

impl Lines {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Returns the next complete line.
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
