//! One script with its arguments.

use std::{fmt::Display, io::Write};

use redis::Cmd;

use super::script::Script;
use crate::backend::sql::outcome::Row;
#[cfg(doc)]
use crate::backend::sql::server_clock::ClockTrust;

/// A script with its arguments.
#[derive(Clone, Debug)]
pub(super) struct Call {
    script: &'static Script,
    arguments: Arguments,
    /// The script ends expired sessions, as far as the client trusts the server's clock.
    pub(super) sweeps: bool,
    /// The follow-up if the server has more of the same work to do.
    pub(super) continues: Continues,
    /// The encoded value of the call, if it is the session's owner.
    pub(super) owner: Option<Vec<u8>>,
    /// The call uses the connection that is reserved for keepalives.
    pub(super) beats: bool,
    /// The first outcome is the remaining time of some sessions.
    pub(super) tells_expiries: bool,
    /// The entry that the call removes, as the server names it. The session ignores notifications
    /// of that removal.
    pub(super) ends: Option<String>,
    /// The replicas that must have the data before the reply counts.
    pub(super) acks: Acks,
}

/// The follow-up if the server reports that one script could not do all the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Continues {
    /// The session continues the work in the background.
    Later,
    /// The same request is sent again.
    Again,
    /// The request is sent again for the rows after the last one.
    AfterLast,
}

/// The data that replicas must have before a reply counts.
///
/// Replicas must have more than the session's own writes. A replaced primary continues to run, and
/// may remove a holder that the new primary knows and renews. A client that reads this from the old
/// primary must not conclude that its lock is granted. Once the replicas have all that the primary
/// had when it was read, they have the holder's removal, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acks {
    Nothing,
    /// The writes of the call.
    Written,
    /// All that the call has read. The server must not have been a replica since the connection was
    /// made.
    Read,
}

/// A value that can be written as an argument.
pub(super) trait Argument {
    fn write(&self, to: &mut Vec<u8>);
}

impl<T: AsRef<[u8]>> Argument for T {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self.as_ref());
    }
}

/// A value that is written as its text.
pub(super) struct Text<T>(pub(super) T);

impl<T: Display> Argument for Text<T> {
    fn write(&self, to: &mut Vec<u8>) {
        // Writing to a vector cannot fail.
        let _ = write!(to, "{}", self.0);
    }
}

/// All arguments of a call, one after the other.
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

    /// Appends an argument.
    pub(super) fn arg(mut self, argument: impl Argument) -> Self {
        self.arguments.push(&argument);
        self
    }

    /// Appends arguments.
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

    /// Queries the remaining time of these sessions, which are the last arguments.
    pub(super) fn telling_expiries(self, sessions: &[i64]) -> Self {
        let call = self.args(sessions.iter().map(|session| Text(format!("{session:x}"))));
        Self { tells_expiries: true, ..call }
    }

    pub(super) fn continuing(self, continues: Continues) -> Self {
        Self { continues, ..self }
    }

    pub(super) fn with_owner(mut self, owner: &[u8]) -> Self {
        self.owner = owner.starts_with(b"o").then(|| owner.to_vec());
        self
    }

    /// Returns the call for the rows after this one. The row's place becomes the last argument: a
    /// queue, the number of an entry, or `/` and the name of a note.
    pub(super) fn after(&self, row: &Row) -> Self {
        let note = || format!("/{}", row.text(8).unwrap_or_default());
        let place = row.text(0).map_or_else(note, str::to_owned);
        let mut next = self.clone();
        next.arguments.pop();
        next.arg(place)
    }

    /// Completes the call for a session and its trust in the server's clock. See
    /// [`ClockTrust::words`].
    pub(super) fn of(&self, session: i64, clock_trust: Option<String>) -> Asked<'_> {
        let first = [format!("{session:x}"), clock_trust.unwrap_or_default()];
        Asked { call: self, first: Some(first) }
    }

    /// Completes the call where there is no session.
    pub(super) fn of_no_session(&self) -> Asked<'_> {
        Asked { call: self, first: None }
    }
}

/// A script with all of its arguments.
pub(super) struct Asked<'a> {
    call: &'a Call,
    /// The session, and its trust in the server's clock.
    first: Option<[String; 2]>,
}

impl Asked<'_> {
    /// Returns the command. `whole`: it contains the script's text, because the server has
    /// forgotten it.
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
    fn script_arguments_parse_as_written() {
        let call = Call::new(&super::super::script::QUEUES).arg("/ns").arg(Text(17)).arg("");
        let read = |call: &Call| call.arguments.each().map(<[u8]>::to_vec).collect::<Vec<_>>();
        assert_eq!(read(&call), [&b"/ns"[..], b"17", b""]);
        let queue = Row::new(vec![Some("/ns/a".into())]);
        assert_eq!(read(&call.after(&queue)), [&b"/ns"[..], b"17", b"/ns/a"]);
        let mut note = vec![None; 9];
        note[8] = Some("b".into());
        let note = Row::new(note);
        assert_eq!(read(&call.after(&queue).after(&note)), [&b"/ns"[..], b"17", b"/b"]);
    }
}
