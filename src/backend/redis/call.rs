//! One script, and what it is run with.

use std::{fmt::Display, io::Write};

use redis::Cmd;

use super::script::Script;
#[cfg(doc)]
use crate::backend::sql::server_clock::ClockTrust;

/// One script, to be run with this.
#[derive(Clone, Debug)]
pub(super) struct Call {
    script: &'static Script,
    arguments: Arguments,
    /// It ends sessions that are over, as far as the server's clock is trusted.
    pub(super) sweeps: bool,
    /// What follows if the server has more of the same to do.
    pub(super) continues: Continues,
    /// The word for a value that is the session's owner.
    pub(super) owner: Option<Vec<u8>>,
    /// It goes by the connection that nothing else waits on.
    pub(super) beats: bool,
    /// Its first outcome is how long some sessions have left.
    pub(super) tells_expiries: bool,
    /// What it ends of a queue, in the server's words, which says nothing of it to this session.
    pub(super) ends: Option<String>,
    /// Where replicas are to have what counts.
    pub(super) acks: Acks,
}

/// What follows if the server says that it has more to do than one script may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Continues {
    /// The session goes on with it when it has time.
    Later,
    /// The same request again.
    Again,
    /// The same request, for what comes after the last row.
    AfterLast,
}

/// What replicas have to have before an answer counts.
///
/// Not what is written alone. A primary that was replaced goes on by itself, and may put away a
/// holder there that the new one knows and renews: what it shows then must not grant anything to
/// who is behind. Once the replicas have all that was there as it was read, they have that, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acks {
    Nothing,
    /// What it has written.
    Written,
    /// What it has read, and by a server that was no replica since the connection was made.
    Read,
}

/// Something that an argument is made of.
pub(super) trait Argument {
    fn write(&self, to: &mut Vec<u8>);
}

impl<T: AsRef<[u8]>> Argument for T {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self.as_ref());
    }
}

/// What is written as its text.
pub(super) struct Text<T>(pub(super) T);

impl<T: Display> Argument for Text<T> {
    fn write(&self, to: &mut Vec<u8>) {
        // Writing to a vector does not fail.
        let _ = write!(to, "{}", self.0);
    }
}

/// All arguments of a call, one behind the other.
#[derive(Clone, Debug, Default)]
struct Arguments {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Arguments {
    fn push(&mut self, argument: &impl Argument) {
        argument.write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    fn pop(&mut self) {
        self.ends.pop();
        self.bytes.truncate(self.ends.last().copied().unwrap_or_default());
    }

    fn each(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}

impl Call {
    pub(super) fn new(script: &'static Script) -> Self {
        Self {
            script,
            arguments: Arguments::default(),
            sweeps: false,
            beats: false,
            acks: Acks::Nothing,
            tells_expiries: false,
            ends: None,
            continues: Continues::Later,
            owner: None,
        }
    }

    /// With one argument more.
    pub(super) fn arg(mut self, argument: impl Argument) -> Self {
        self.arguments.push(&argument);
        self
    }

    /// With these arguments more.
    pub(super) fn args(mut self, arguments: impl IntoIterator<Item = impl Argument>) -> Self {
        arguments.into_iter().for_each(|argument| self.arguments.push(&argument));
        self
    }

    pub(super) fn by_the_other_connection(self) -> Self {
        Self { beats: true, ..self }
    }

    pub(super) fn ending(self, ends: Option<String>) -> Self {
        Self { ends, ..self }
    }

    pub(super) fn sweeping(self) -> Self {
        Self { sweeps: true, ..self }
    }

    pub(super) fn with(self, acks: Acks) -> Self {
        Self { acks, ..self }
    }

    /// Of these, in its last arguments.
    pub(super) fn telling_expiries(self, sessions: &[i64]) -> Self {
        let call = self.args(sessions.iter().map(|session| Text(format!("{session:x}"))));
        Self { tells_expiries: true, ..call }
    }

    pub(super) fn continuing(self, continues: Continues) -> Self {
        Self { continues, ..self }
    }

    pub(super) fn with_owner(mut self, word: &[u8]) -> Self {
        self.owner = word.starts_with(b"o").then(|| word.to_vec());
        self
    }

    /// The same for what comes after this row, which is its last argument.
    pub(super) fn after(&self, row: &str) -> Self {
        let mut next = self.clone();
        next.arguments.pop();
        next.arg(row)
    }

    /// The same for a session that knows this of the server's clock: see [`ClockTrust::words`].
    pub(super) fn of(&self, session: i64, clock_trust: Option<String>) -> Asked<'_> {
        let first = [format!("{session:x}"), clock_trust.unwrap_or_default()];
        Asked { call: self, first: Some(first) }
    }

    /// The same where there is no session.
    pub(super) fn of_no_session(&self) -> Asked<'_> {
        Asked { call: self, first: None }
    }
}

/// A script to be run, with all of its arguments.
pub(super) struct Asked<'a> {
    call: &'a Call,
    /// The session, and what it knows of the server's clock.
    first: Option<[String; 2]>,
}

impl Asked<'_> {
    /// `whole`: the server does not know the script.
    pub(super) fn command(&self, keys: &[String], whole: bool) -> Cmd {
        let mut command = self.call.script.command(keys, whole);
        if let Some(first) = &self.first {
            command.arg(first);
        }
        for argument in self.call.arguments.each() {
            command.arg(argument);
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_as_they_are_written() {
        let call = Call::new(&super::super::script::QUEUES).arg("/ns").arg(Text(17)).arg("");
        let read = |call: &Call| call.arguments.each().map(<[u8]>::to_vec).collect::<Vec<_>>();
        assert_eq!(read(&call), [&b"/ns"[..], b"17", b""]);
        assert_eq!(read(&call.after("/ns/a")), [&b"/ns"[..], b"17", b"/ns/a"]);
        assert_eq!(read(&call.after("/ns/a").after("")), [&b"/ns"[..], b"17", b""]);
    }
}
