//! What `distlock` and its guardian say to each other, a line each.

use std::{fmt, time::Duration};

use crate::process_group::Ended;

/// To the guardian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The lock is certain until then, on [`clock::now`](crate::clock::now).
    Deadline(Duration),
    /// Pass this signal on.
    Signal(i32),
    /// The lock is lost.
    Kill,
}

/// Why a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The command runs, and has this number.
    Started(i32),
    /// It could not be started. With the exit code for that.
    Failed(u8, String),
    /// It has ended, and nothing lives of all that it started.
    Ended(Ended, Cause),
}

const CAUSES: [(&str, Cause); 4] = [
    ("itself", Cause::Itself),
    ("deadline", Cause::Deadline),
    ("ordered", Cause::Ordered),
    ("abandoned", Cause::Abandoned),
];

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline(at) => writeln!(f, "deadline {}", at.as_nanos()),
            Self::Signal(signal) => writeln!(f, "signal {signal}"),
            Self::Kill => writeln!(f, "kill"),
        }
    }
}

impl Order {
    /// Reads a line.
    pub(crate) fn read(line: &str) -> Option<Self> {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("deadline", at) => Some(Self::Deadline(Duration::from_nanos(at.parse().ok()?))),
            ("signal", signal) => Some(Self::Signal(signal.parse().ok()?)),
            ("kill", _) => Some(Self::Kill),
            _ => None,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started(pid) => writeln!(f, "started {pid}"),
            Self::Failed(code, text) => writeln!(f, "failed {code} {}", text.replace('\n', " ")),
            Self::Ended(ended, cause) => {
                let cause = CAUSES.iter().find(|(_, known)| known == cause);
                let cause = cause.map_or("itself", |(name, _)| name);
                match ended {
                    Ended::Code(code) => writeln!(f, "ended {cause} code {code}"),
                    Ended::Signal(signal) => writeln!(f, "ended {cause} signal {signal}"),
                }
            }
        }
    }
}

impl Report {
    /// Reads a line.
    pub(crate) fn read(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ')?;
        match word {
            "started" => Some(Self::Started(rest.parse().ok()?)),
            "failed" => {
                let (code, text) = rest.split_once(' ')?;
                Some(Self::Failed(code.parse().ok()?, text.to_owned()))
            }
            "ended" => {
                let mut parts = rest.split(' ');
                let (cause, kind) = (parts.next()?, parts.next()?);
                let number = parts.next()?.parse().ok()?;
                let cause = CAUSES.iter().find(|(name, _)| *name == cause)?.1;
                let ended = match kind {
                    "code" => Ended::Code(number),
                    _ => Ended::Signal(number),
                };
                Some(Self::Ended(ended, cause))
            }
            _ => None,
        }
    }
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
    fn what_is_said_is_understood() {
        for order in [Order::Deadline(Duration::new(1_000_000, 5)), Order::Signal(15), Order::Kill]
        {
            assert_eq!(Order::read(order.to_string().trim_end()), Some(order));
        }
        let reports = [
            Report::Started(17),
            Report::Failed(127, "no such file".into()),
            Report::Ended(Ended::Code(3), Cause::Itself),
            Report::Ended(Ended::Signal(9), Cause::Deadline),
            Report::Ended(Ended::Signal(9), Cause::Abandoned),
        ];
        let mut lines = Lines::default();
        for report in &reports {
            lines.push(report.to_string().as_bytes());
        }
        for report in reports {
            assert_eq!(lines.next().as_deref().and_then(Report::read), Some(report));
        }
        assert_eq!(lines.next(), None);
        assert_eq!(Order::read("deadline soon"), None);
        assert_eq!(Report::read("ended"), None);
    }
}
