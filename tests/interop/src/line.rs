//! What workers say: one line for each thing that happened, `WORD NANOSECONDS [REST]`.

use std::fmt;

use distlock_testkit::clock::now;

pub(crate) fn say(word: &str, rest: &str) {
    println!("{}", Line { word: word.to_owned(), at: now(), rest: rest.to_owned() });
}

#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) word: String,
    pub(crate) at: u64,
    pub(crate) rest: String,
}

impl Line {
    /// `None`: it is not one of ours, but a warning of a library, say.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut parts = line.trim_end().splitn(3, ' ');
        let word = parts.next()?.to_owned();
        let at = parts.next()?.parse().ok()?;
        Some(Self { word, at, rest: parts.next().unwrap_or_default().to_owned() })
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.word, self.at, self.rest)
    }
}
