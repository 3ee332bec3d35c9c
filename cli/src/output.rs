//! What is told to people and to programs, without a panic if nobody reads it.

use std::io::{self, IsTerminal, Write, stderr, stdout};

use serde_json::Value;

/// How things are told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether programs read it.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Whether somebody looks on.
    pub(crate) fn has_terminal(self) -> bool {
        !self.json && stderr().is_terminal()
    }

    /// A word on standard error, or an object with what happened: the standard output is the
    /// command's.
    pub(crate) fn note(self, event: &str, text: &str, mut details: Value) {
        let line = if self.json {
            if let Some(details) = details.as_object_mut() {
                details.insert("event".to_owned(), event.into());
                details.insert("text".to_owned(), text.into());
            }
            format!("{details}\n")
        } else {
            format!("distlock: {}\n", printable(text))
        };
        // In one piece; if nobody reads it, so be it.
        let _ = stderr().lock().write_all(line.as_bytes());
    }

    /// The same where only programs want to know.
    pub(crate) fn event(self, event: &str, details: Value) {
        if self.json {
            self.note(event, "", details);
        }
    }

    /// A line on standard output.
    pub(crate) fn line(self, text: &str, object: &Value) -> io::Result<()> {
        let line = if self.json { format!("{object}\n") } else { format!("{}\n", printable(text)) };
        let mut out = stdout().lock();
        out.write_all(line.as_bytes())?;
        out.flush()
    }
}

/// What others wrote into the store must not command this terminal.
pub(crate) fn printable(text: &str) -> String {
    let plain = |c: char| if c.is_control() && c != '\t' { '\u{fffd}' } else { c };
    text.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn control_characters_are_escaped_in_output() {
        assert_eq!(super::printable("a\u{1b}[2Jb\tc"), "a\u{fffd}[2Jb\tc");
    }
}
