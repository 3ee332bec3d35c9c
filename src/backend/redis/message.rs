//! The requests of a session, as calls of scripts.

use std::{sync::Arc, time::Duration};

use super::{
    call::{Acks, Call, Continues, Text},
    gate::Gate,
    owner::{Owner, unsigned},
    script::{
        ADOPT, CLOSE, COMMIT, CONFIRM, EXPIRIES, FORMER, GATE, HELLO, JOIN, KEEP_ALIVE, KEPT,
        LABELS, LEAVE, LIST, NEAREST, OPEN, OWN, PRESENT, QUEUES, READ, RELABEL, REWRITE, STANDING,
        UNWATCH, WATCH,
    },
    server::Identity,
};
use crate::backend::{
    Joiner, Part, Result, Which, Write,
    bridge::Bridge,
    sql::{key::Place, outcome::Outcome, statements::Statements},
};

/// One request.
#[derive(Clone, Debug)]
pub(super) enum Message {
    Call(Arc<Call>),
    /// Reads the server's settings.
    Settings,
    /// Subscribes to this channel.
    Listen(Arc<str>),
    Deafen(Arc<str>),
}

impl Message {
    /// Returns the call if it waits for replicas, and so uses the connection for that.
    pub(super) fn for_replicas(&self) -> Option<&Call> {
        match self {
            Self::Call(call) if call.acks != Acks::Nothing && !call.beats => Some(call),
            _ => None,
        }
    }
}

impl From<Call> for Message {
    fn from(call: Call) -> Self {
        Self::Call(Arc::new(call))
    }
}

/// Opens a session. `newest`: the highest number that this client has received.
pub(super) fn open(microseconds: u64, server: &Identity, newest: u64, former: Former) -> Call {
    let call = reported(Call::new(&OPEN).arg(Text(microseconds)), server, newest);
    call.arg(Text(former.newest)).arg(Text(former.lives)).with(Acks::Written)
}

/// Records that the state at the session's start is on the server's disk.
pub(super) fn kept() -> Call {
    Call::new(&KEPT)
}

pub(super) fn hello(server: &Identity, newest: u64) -> Call {
    reported(Call::new(&HELLO), server, newest)
}

/// Appends the arguments that `meet` in the scripts takes.
fn reported(call: Call, server: &Identity, newest: u64) -> Call {
    let Identity { name, keeps, promoted, runs, replicated } = server;
    let call = call.arg(name).arg(flag(*keeps)).arg(flag(*promoted)).arg(Text(micros(*runs)));
    call.arg(flag(*replicated)).arg(Text(newest))
}

fn flag(is_so: bool) -> &'static str {
    if is_so { "1" } else { "0" }
}

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Writes something after a read on the same connection.
pub(super) fn confirm() -> Call {
    Call::new(&CONFIRM)
}

/// Reads the state of the keys of version 1.
pub(super) fn former_look(namespace: &str) -> Call {
    Call::new(&FORMER).arg(namespace).arg("look")
}

/// Reads some data of version 1, after this key.
pub(super) fn former_data(namespace: &str, after: &[u8]) -> Call {
    Call::new(&FORMER).arg(namespace).arg("data").arg(after)
}

/// Records that the namespace has adopted all of the data.
pub(super) fn former_adopted(namespace: &str) -> Call {
    Call::new(&FORMER).arg(namespace).arg("adopted")
}

/// Copies data into the namespace. Keys and values alternate.
pub(super) fn adopt(page: &[Vec<u8>]) -> Call {
    Call::new(&ADOPT).args(page)
}

/// Describes keys of a version that this build does not know.
pub(super) fn other_version(tag: &str, version: &str) -> String {
    format!(
        "the keys {tag}:* have version {version}, but this build of distlock supports version 2: \
         use a build that supports the keys, or another database"
    )
}

/// The state of version 1 that a namespace continues from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Former {
    /// The highest number.
    pub(super) newest: u64,
    /// How long a session may still live, in microseconds.
    pub(super) lives: u64,
}

/// The requests of one session.
#[derive(Debug)]
pub(super) struct Calls {
    /// The bridge to other libraries' locks.
    pub(super) bridge: Option<Bridge>,
    pub(super) owner: Owner,
}

impl Calls {
    /// Returns the gate of a queue, or `None` if it has none.
    pub(super) fn gate(&self, dir: &str) -> Option<Gate> {
        Gate::of(self.bridge.as_ref(), dir)
    }

    /// Returns the layout of all gates, or an empty string.
    fn layout(&self) -> &'static str {
        self.bridge.as_ref().map_or("", |bridge| bridge.layout.name())
    }
}

impl Statements for Calls {
    type Message = Message;

    /// Renews the session. It also queries the sessions of `others`, which this client's waiters
    /// wait for: while these are renewed, no other check of them is needed.
    fn keep_alive(&self, others: &[i64]) -> Message {
        let call = Call::new(&KEEP_ALIVE).sweeping().with(Acks::Written).telling_expiries(others);
        call.by_the_other_connection().into()
    }

    fn close(&self) -> Message {
        Call::new(&CLOSE).continuing(Continues::Again).into()
    }

    /// The script was repeated until no entries were left.
    fn is_closed(_: &[Outcome]) -> Result<bool> {
        Ok(true)
    }

    fn join(&self, joiners: &[Joiner<'_>], value: &[u8], if_free: bool) -> Message {
        let is_signed = joiners.iter().all(|joiner| !joiner.queue.is_election());
        let owner = if is_signed { self.owner.encoded(value) } else { unsigned(value) };
        let mut call = Call::new(&JOIN).arg(flag(if_free)).arg(&owner).arg(self.layout());
        for Joiner { queue, ticket } in joiners {
            let gate = self.gate(queue.dir()).map(|gate| gate.key);
            call = call.arg(queue.dir()).arg(Text(ticket)).arg(queue.label());
            call = call.arg(gate.unwrap_or_default());
        }
        call.with(Acks::Read).with_owner(&owner).into()
    }

    fn standing(&self, own: &Place<'_>) -> Message {
        let call = Call::new(&STANDING).arg(own.dir).arg(Text(own.number));
        call.args(Gate::arguments(self.gate(own.dir).as_ref())).with(Acks::Read).into()
    }

    fn present(&self, own: &Place<'_>, ahead: &Place<'_>) -> Message {
        let call = Call::new(&PRESENT).arg(own.dir).arg(Text(own.number)).arg(Text(ahead.number));
        call.args(Gate::arguments(self.gate(own.dir).as_ref())).with(Acks::Read).into()
    }

    fn own_entries(&self) -> Message {
        Call::new(&OWN).into()
    }

    fn leave(&self, of: Joiner<'_>, number: Option<u64>, successor: Option<u64>) -> Message {
        let (dir, label) = (of.queue.dir(), of.queue.label());
        let ends = number.map(|number| format!("{dir}/ {number}"));
        let numbers = [number, successor].map(|number| number.map(|number| number.to_string()));
        let numbers = numbers.map(Option::unwrap_or_default);
        let call = Call::new(&LEAVE).arg(dir).arg(Text(of.ticket)).arg(label).args(numbers);
        call.arg(self.layout()).ending(ends).into()
    }

    fn rewrite(&self, entry: &Place<'_>, value: &[u8], version: u64) -> Message {
        let call = Call::new(&REWRITE).arg(entry.dir).arg(Text(entry.number));
        call.arg(value).arg(Text(version)).into()
    }

    fn relabel(&self, entry: &Place<'_>, label: &str, value: &[u8]) -> Message {
        let owner = self.owner.encoded(value);
        let call = Call::new(&RELABEL).arg(entry.dir).arg(Text(entry.number));
        call.arg(label).arg(&owner).with_owner(&owner).into()
    }

    fn commit(&self, guards: &[Place<'_>], writes: &[Write]) -> Message {
        let mut call = Call::new(&COMMIT).arg(Text(guards.len()));
        for guard in guards {
            call = call.arg(guard.dir).arg(Text(guard.number));
        }
        for write in writes {
            call = match write {
                Write::Put { key, value } => call.arg("put").arg(key).arg(value),
                Write::Delete { key } => match Gate::named(self.bridge.as_ref(), key) {
                    Some((dir, Gate { layout, key })) => {
                        call.arg("gate").arg(key).arg(format!("{} {dir}", layout.name()))
                    }
                    None => call.arg("del").arg(key).arg(""),
                },
            };
        }
        call.with(Acks::Written).into()
    }

    fn read(&self, key: &str) -> Message {
        // On an old primary, the value may be older than a holder's write to the new one.
        Call::new(&READ).arg(key).with(Acks::Read).into()
    }

    fn queues(&self, namespace: &str) -> Message {
        Call::new(&QUEUES).arg(namespace).arg("").continuing(Continues::AfterLast).into()
    }
}

pub(super) fn gate(dir: &str, gate: &Gate) -> Call {
    Call::new(&GATE).arg(dir).args(Gate::arguments(Some(gate)))
}

pub(super) fn watch(entry: &Place<'_>) -> Call {
    Call::new(&WATCH).arg(entry.dir).arg(Text(entry.number))
}

pub(super) fn unwatch(dir: &str, number: u64) -> Call {
    Call::new(&UNWATCH).arg(dir).arg(Text(number))
}

pub(super) fn expiries(sessions: &[i64]) -> Call {
    Call::new(&EXPIRIES).sweeping().telling_expiries(sessions)
}

/// Ends expired sessions, and removes what they have left.
pub(super) fn sweep() -> Call {
    expiries(&[]).continuing(Continues::Again)
}

pub(super) fn list(dir: &str, values: bool, watch: bool, gate: Option<&Gate>) -> Call {
    let call = Call::new(&LIST).arg(dir).arg(flag(values)).arg(flag(watch));
    let call = call.args(Gate::arguments(gate)).arg("").with(Acks::Read);
    call.continuing(Continues::AfterLast)
}

/// Returns an entry, and the entries that decide about it.
pub(super) fn part(dir: &str, Part { own, which }: Part, watch: bool) -> Call {
    let own = own.map(|own| own.to_string()).unwrap_or_default();
    match which {
        Which::Labels => {
            let call = Call::new(&LABELS).arg(dir).arg(own).arg(flag(watch)).arg("");
            call.with(Acks::Read).continuing(Continues::AfterLast)
        }
        Which::Nearest | Which::NearestWriter => {
            let passes_readers = which == Which::NearestWriter;
            Call::new(&NEAREST).arg(dir).arg(own).arg(flag(passes_readers)).with(Acks::Read)
        }
    }
}
