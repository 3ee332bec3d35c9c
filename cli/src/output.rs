//! Writes messages for people or for programs. A closed pipe causes no panic.

use std::io::{self, IsTerminal, Write, stderr, stdout};

use serde_json::Value;

/// The format of messages: text, or JSON lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether messages are JSON objects, for programs.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Whether a person watches a terminal.
    pub(crate) fn has_terminal(self) -> bool {
        !self.json && stderr().is_terminal()
    }

    /// Writes a message or an event to standard error, because standard output belongs to the
    /// command.
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
        // One write, so that lines of several processes do not mix. A closed pipe is ignored.
        let _ = stderr().lock().write_all(line.as_bytes());
    }

    /// Writes an event that only programs need.
    pub(crate) fn event(self, event: &str, details: Value) {
        if self.json {
            self.note(event, "", details);
        }
    }

    /// Writes a line to standard output.
    pub(crate) fn line(self, text: &str, object: &Value) -> io::Result<()> {
        let line = if self.json { format!("{object}\n") } else { format!("{}\n", printable(text)) };
        let mut out = stdout().lock();
        out.write_all(line.as_bytes())?;
        out.flush()
    }
}

/// Replaces control characters: text from the store must not send control sequences to the
/// terminal.
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
