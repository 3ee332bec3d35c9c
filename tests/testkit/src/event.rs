//! The events that workers report, one per line: `WORD NANOSECONDS [REST]`.

use std::{fmt, io};

use crate::{clock::now, orders};

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened: a keyword.
    pub word: String,
    /// When, on `CLOCK_MONOTONIC`.
    pub at: u64,
    /// Details.
    pub rest: String,
}

impl Event {
    /// Creates an event with the current time.
    pub fn new(word: &str, rest: impl ToString) -> Self {
        Self { word: word.to_owned(), at: now(), rest: rest.to_string().replace('\n', " ") }
    }

    /// Parses a line. Returns `None` if it is no event, such as a library's warning.
    pub fn parse(line: &str) -> Option<Self> {
        let mut parts = line.trim_end().splitn(3, ' ');
        let word = parts.next()?.to_owned();
        let at = parts.next()?.parse().ok()?;
        Some(Self { word, at, rest: parts.next().unwrap_or_default().to_owned() })
    }

    /// Reports the event to the parent process.
    pub fn report(&self) -> io::Result<()> {
        orders::say(&self.to_string())
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.word, self.at, self.rest)
    }
}

/// Reports an event with the current time.
pub fn report(word: &str, rest: impl ToString) -> io::Result<()> {
    Event::new(word, rest).report()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_back() {
        for rest in ["", "1 2 3", "two  spaces"] {
            let event = Event::new("grant", rest);
            assert_eq!(Event::parse(&event.to_string()), Some(event));
        }
        assert_eq!(Event::new("error", "two\nlines").rest, "two lines");
        for junk in ["", "grant", "grant me", "a warning of 1"] {
            assert_eq!(Event::parse(junk), None, "{junk}");
        }
    }
}
