//! What workers say: one line for each thing that happened, `WORD NANOSECONDS [REST]`.

use std::{fmt, io};

use crate::{clock::now, orders};

/// One of these lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What happened.
    pub word: String,
    /// When, on `CLOCK_MONOTONIC`.
    pub at: u64,
    /// What else there is to say of it.
    pub rest: String,
}

impl Line {
    /// What happens now.
    pub fn new(word: &str, rest: impl ToString) -> Self {
        Self { word: word.to_owned(), at: now(), rest: rest.to_string().replace('\n', " ") }
    }

    /// `None`: it is not one of ours, but a warning of a library, say.
    pub fn parse(line: &str) -> Option<Self> {
        let mut parts = line.trim_end().splitn(3, ' ');
        let word = parts.next()?.to_owned();
        let at = parts.next()?.parse().ok()?;
        Some(Self { word, at, rest: parts.next().unwrap_or_default().to_owned() })
    }

    /// Says it to the process that started this one.
    pub fn say(&self) -> io::Result<()> {
        orders::say(&self.to_string())
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.word, self.at, self.rest)
    }
}

/// Says what happens now.
pub fn say(word: &str, rest: impl ToString) -> io::Result<()> {
    Line::new(word, rest).say()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_back() {
        for rest in ["", "1 2 3", "two  spaces"] {
            let line = Line::new("grant", rest);
            assert_eq!(Line::parse(&line.to_string()), Some(line));
        }
        assert_eq!(Line::new("error", "two\nlines").rest, "two lines");
        for junk in ["", "grant", "grant me", "a warning of 1"] {
            assert_eq!(Line::parse(junk), None, "{junk}");
        }
    }
}
