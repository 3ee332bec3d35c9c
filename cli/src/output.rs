//! Writes messages for people or for programs. A closed pipe causes no panic.

use std::{
    ffi::OsString,
    io::{self, IsTerminal, Write, stderr, stdout},
    sync::{
        LazyLock,
        mpsc::{self, SyncSender},
    },
    thread,
    time::Duration,
};

use serde_json::Value;

/// How long a message may delay the work on a lock.
const PATIENCE: Duration = Duration::from_millis(100);
/// How many messages are kept while standard error blocks.
const KEPT: usize = 64;

static MESSAGES: LazyLock<Writer> = LazyLock::new(|| Writer::start(stderr()));

/// Writes lines on a separate thread. Standard error blocks if it is a full pipe or a stopped
/// terminal, and a lock must not stay held, or a command alive, until something reads from it.
struct Writer(SyncSender<(String, SyncSender<()>)>);

impl Writer {
    fn start(mut out: impl Write + Send + 'static) -> Self {
        let (sender, lines) = mpsc::sync_channel::<(String, SyncSender<()>)>(KEPT);
        let write = move || {
            for (line, written) in lines {
                // One write, so that lines of several processes do not mix. A closed pipe is
                // ignored.
                let _ = out.write_all(line.as_bytes());
                let _ = written.try_send(());
            }
        };
        // Without the thread, messages are dropped.
        let _ = thread::Builder::new().name("messages".to_owned()).spawn(write);
        Self(sender)
    }

    /// Writes a line. Returns after [`PATIENCE`], even if the line is not written yet.
    fn write(&self, line: String) {
        let (done, written) = mpsc::sync_channel(1);
        if self.0.try_send((line, done)).is_ok() {
            let _ = written.recv_timeout(PATIENCE);
        }
    }
}

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
    pub(crate) fn note(self, event: &str, text: &str, details: Value) {
        let line = self.message(event, text, details);
        // One write, so that lines of several processes do not mix. A closed pipe is ignored.
        let _ = stderr().lock().write_all(line.as_bytes());
    }

    /// Writes a message while a lock is held or awaited. Does not wait until something reads it.
    pub(crate) fn brief_note(self, event: &str, text: &str, details: Value) {
        MESSAGES.write(self.message(event, text, details));
    }

    /// Writes an event that only programs need, while a lock is held.
    pub(crate) fn event(self, event: &str, details: Value) {
        if self.json {
            self.brief_note(event, "", details);
        }
    }

    fn message(self, event: &str, text: &str, mut details: Value) -> String {
        if !self.json {
            return format!("distlock: {}\n", printable(text));
        }
        if let Some(details) = details.as_object_mut() {
            details.insert("event".to_owned(), event.into());
            details.insert("text".to_owned(), text.into());
        }
        format!("{details}\n")
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

/// Replaces arguments that may be misplaced URLs with a password, also those in an option.
pub(crate) fn masked(text: &str, arguments: &[OsString]) -> String {
    let parts = |argument: &str| {
        let after = |sign: &str| argument.split_once(sign).map(|(_, rest)| rest.to_owned());
        [Some(argument.to_owned()), after("="), after("://")]
    };
    let arguments = arguments.iter().filter_map(|argument| argument.to_str());
    let secrets = arguments.flat_map(parts).flatten().filter(|part| part.contains('@'));
    secrets.fold(text.to_owned(), |text, secret| text.replace(&secret, "***"))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use rustix::pipe::fcntl_getpipe_size;

    use super::*;

    #[test]
    fn control_characters_are_escaped_in_output() {
        assert_eq!(printable("a\u{1b}[2Jb\tc"), "a\u{fffd}[2Jb\tc");
    }

    #[test]
    fn blocked_message_delays_no_lock() {
        let (mut reader, mut pipe) = io::pipe().expect("a pipe");
        let size = fcntl_getpipe_size(&pipe).expect("a pipe");
        pipe.write_all(&vec![b'.'; size]).expect("the pipe is empty");
        let (sender, ended) = mpsc::channel();
        thread::spawn(move || {
            let writer = Writer::start(pipe);
            for number in 0..3 {
                writer.write(format!("{number}\n"));
            }
            sender.send(writer)
        });
        let writer = ended.recv_timeout(Duration::from_secs(30));
        let writer = writer.expect("nothing waits for the reader");
        reader.read_exact(&mut vec![0; size]).expect("the pipe is full");
        let mut messages = [0; 6];
        reader.read_exact(&mut messages).expect("the messages arrive");
        assert_eq!(&messages, b"0\n1\n2\n");
        drop(writer);
    }

    #[test]
    fn misplaced_urls_are_masked() {
        let url = "postgres://u:geheim@h/db?owner=a%40b";
        let options = ["--local=", "-w", "--url"].map(|option| format!("{option}{url}"));
        let [local, wait, joined] = &options;
        for (argument, shown) in [
            (url, url),
            (local.as_str(), url),
            (wait.as_str(), url),
            (joined.as_str(), joined.as_str()),
            ("u:geheim@h", "u:geheim@h"),
            ("--kind=u:geheim@h", "u:geheim@h"),
        ] {
            let text = format!("unexpected value '{shown}'");
            let text = masked(&text, &["ls".into(), argument.into()]);
            assert!(text.contains("***") && !text.contains("geheim"), "{argument}: {text}");
        }
        let harmless = ["a@b=", "@", "--x="].map(OsString::from);
        assert_eq!(masked("unexpected value 'x'", &harmless), "unexpected value 'x'");
    }
}
