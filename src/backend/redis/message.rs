//! What is asked of the server, in words that the scripts understand.

use std::{sync::Arc, time::Duration};

use super::{
    gate::Gate,
    owner::Owner,
    script::{
        ADOPT, CLOSE, COMMIT, CONFIRM, EXPIRIES, FORMER, GATE, HELLO, JOIN, KEEP_ALIVE, KEPT,
        LEAVE, LIST, OPEN, OWN, PRESENT, QUEUES, READ, RELABEL, REWRITE, STANDING, Script, UNWATCH,
        WATCH,
    },
    server::Identity,
};
use crate::backend::{
    Joiner, Ticket, Write,
    bridge::Bridge,
    sql::{key::Place, server_clock::ClockTrust, statements::Statements},
};

/// One request.
#[derive(Clone, Debug)]
pub(super) enum Message {
    Call(Call),
    /// How the server is set up.
    Settings,
    /// To listen to this channel from now on, or no longer.
    Listen(Arc<str>),
    Deafen(Arc<str>),
}

/// One script, to be run with this.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) script: &'static Script,
    arguments: Vec<Vec<u8>>,
    /// It ends sessions that are over, as far as the server's clock is trusted.
    pub(super) sweeps: bool,
    /// What follows if the server has more of the same to do.
    pub(super) continues: Continues,
    /// The word for a value that is the session's owner.
    pub(super) owner: Option<Vec<u8>>,
    /// It goes by the connection that nothing else waits on.
    pub(super) beats: bool,
    /// Its first outcome tells how long some sessions will live.
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
    fn written(&self) -> Vec<u8>;
}

impl Argument for &str {
    fn written(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }
}

impl Argument for &[u8] {
    fn written(&self) -> Vec<u8> {
        self.to_vec()
    }
}

impl Argument for u64 {
    fn written(&self) -> Vec<u8> {
        self.to_string().into_bytes()
    }
}

impl Argument for bool {
    fn written(&self) -> Vec<u8> {
        u64::from(*self).written()
    }
}

impl Argument for Ticket {
    fn written(&self) -> Vec<u8> {
        self.to_string().into_bytes()
    }
}

/// `None` is nothing.
impl<T: Argument> Argument for Option<T> {
    fn written(&self) -> Vec<u8> {
        self.as_ref().map(Argument::written).unwrap_or_default()
    }
}

macro_rules! call {
    ($script:ident $(, $argument:expr)* $(,)?) => {
        Call {
            script: &$script,
            arguments: vec![$(Argument::written(&$argument)),*],
            sweeps: false,
            beats: false,
            acks: Acks::Nothing,
            tells_expiries: false,
            ends: None,
            continues: Continues::Later,
            owner: None,
        }
    };
}

impl Call {
    fn sweeping(self) -> Self {
        Self { sweeps: true, ..self }
    }

    fn with(self, acks: Acks) -> Self {
        Self { acks, ..self }
    }

    /// Of these, in its last arguments.
    fn telling_expiries(mut self, sessions: &[i64]) -> Self {
        let ids = sessions.iter().map(|session| format!("{session:x}").into_bytes());
        self.arguments.extend(ids);
        Self { tells_expiries: true, ..self }
    }

    fn continuing(self, continues: Continues) -> Self {
        Self { continues, ..self }
    }

    fn with_owner(mut self, word: &[u8]) -> Self {
        self.owner = word.starts_with(b"o").then(|| word.to_vec());
        self
    }

    /// The same for what comes after this row, which is its last argument.
    pub(super) fn after(&self, row: &str) -> Self {
        let mut next = self.clone();
        if let Some(last) = next.arguments.last_mut() {
            *last = row.written();
        }
        next
    }

    /// Its own arguments, where there is no session.
    pub(super) fn alone(&self) -> &[Vec<u8>] {
        &self.arguments
    }

    /// All arguments, of a session that has this to go by.
    pub(super) fn arguments(&self, session: i64, clock_trust: Option<&ClockTrust>) -> Vec<Vec<u8>> {
        let clock_trust = clock_trust.map(ClockTrust::words).unwrap_or_default();
        let mut all = vec![format!("{session:x}").into_bytes(), clock_trust.into_bytes()];
        all.extend_from_slice(&self.arguments);
        all
    }
}

impl From<Call> for Message {
    fn from(call: Call) -> Self {
        Self::Call(call)
    }
}

/// `newest`: the highest number that this client has been given.
pub(super) fn open(microseconds: u64, server: &Identity, newest: u64, former: Former) -> Call {
    let mut call = call!(OPEN, microseconds).with(Acks::Written);
    call.arguments.extend(reported(server, newest));
    call.arguments.extend([former.newest.written(), former.lives.written()]);
    call
}

/// A look at the keys of version 1.
pub(super) fn former_look(namespace: &str) -> Call {
    call!(FORMER, namespace, "look")
}

/// Some data of version 1, after this key.
pub(super) fn former_data(namespace: &str, after: &[u8]) -> Call {
    call!(FORMER, namespace, "data", after)
}

/// The namespace has adopted all of it.
pub(super) fn former_adopted(namespace: &str) -> Call {
    call!(FORMER, namespace, "adopted")
}

/// Keys and values by turns.
pub(super) fn adopt(page: Vec<Vec<u8>>) -> Call {
    Call { arguments: page, ..call!(ADOPT) }
}

/// The keys are of a version that this build does not know.
pub(super) fn other_version(tag: &str, version: &str) -> String {
    format!(
        "what the server keeps in {tag}:* is of version {version}, and this build of distlock \
         knows version 2: use a build that knows that one, or another database"
    )
}

/// What the session began with is on the server's disk.
pub(super) fn kept() -> Call {
    call!(KEPT)
}

pub(super) fn hello(server: &Identity, newest: u64) -> Call {
    Call { arguments: reported(server, newest).into(), ..call!(HELLO) }
}

fn reported(server: &Identity, newest: u64) -> [Vec<u8>; 6] {
    let Identity { name, keeps, promoted, runs, replicated } = server;
    let (name, runs) = (name.as_str().written(), micros(*runs).written());
    let [keeps, promoted, replicated] = [keeps, promoted, replicated].map(|flag| flag.written());
    [name, keeps, promoted, runs, replicated, newest.written()]
}

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Writes something after what was read by the same connection, to this server as before.
pub(super) fn confirm(server: &str) -> Call {
    call!(CONFIRM, server)
}

/// What a namespace continues from, which version 1 has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Former {
    /// The highest number.
    pub(super) newest: u64,
    /// For how long a session may live on, in microseconds.
    pub(super) lives: u64,
}

/// What one session asks.
#[derive(Debug)]
pub(super) struct Calls {
    /// Whom else its mutexes exclude.
    pub(super) bridge: Option<Bridge>,
    pub(super) owner: Owner,
}

impl Calls {
    /// The gate of a queue; `None`: it has none.
    pub(super) fn gate(&self, dir: &str) -> Option<Gate> {
        Gate::of(self.bridge.as_ref(), dir)
    }
}

impl Statements for Calls {
    type Message = Message;

    /// It asks after `others` on the way, that somebody waits for here: as long as these are
    /// renewed, nobody has to look for them.
    fn keep_alive(&self, others: &[i64]) -> Message {
        let call = Call { beats: true, ..call!(KEEP_ALIVE).sweeping().with(Acks::Written) };
        call.telling_expiries(others).into()
    }

    fn close(&self) -> Message {
        call!(CLOSE).continuing(Continues::Again).into()
    }

    fn join(&self, _: i64, joiners: &[Joiner<'_>], value: &[u8], if_free: bool) -> Message {
        let layout = self.bridge.as_ref().map(|bridge| bridge.layout.word());
        let word = self.owner.word(value);
        let call = call!(JOIN, if_free, word.as_slice(), layout).with(Acks::Read);
        let mut call = call.with_owner(&word);
        for Joiner { queue, ticket } in joiners {
            let gate = self.gate(queue.dir()).map(|gate| gate.key);
            call.arguments.extend([
                queue.dir().written(),
                ticket.written(),
                queue.label().written(),
                gate.as_deref().written(),
            ]);
        }
        call.into()
    }

    fn standing(&self, own: &Place<'_>) -> Message {
        let mut call = call!(STANDING, own.dir, own.number).with(Acks::Read);
        call.arguments.extend(Gate::arguments(self.gate(own.dir).as_ref()));
        call.into()
    }

    fn present(&self, own: &Place<'_>, ahead: &Place<'_>) -> Message {
        let call = call!(PRESENT, own.dir, own.number, ahead.number);
        let mut call = call.with(Acks::Read);
        call.arguments.extend(Gate::arguments(self.gate(own.dir).as_ref()));
        call.into()
    }

    fn own_entries(&self) -> Message {
        call!(OWN).into()
    }

    fn leave(&self, of: Joiner<'_>, number: Option<u64>, successor: Option<u64>) -> Message {
        let (dir, label) = (of.queue.dir(), of.queue.label());
        let ends = number.map(|number| format!("{dir}/ {number}"));
        let layout = self.bridge.as_ref().map(|bridge| bridge.layout.word());
        Call { ends, ..call!(LEAVE, dir, of.ticket, label, number, successor, layout) }.into()
    }

    fn rewrite(&self, entry: &Place<'_>, value: &[u8], version: u64) -> Message {
        call!(REWRITE, entry.dir, entry.number, value, version).into()
    }

    fn relabel(&self, entry: &Place<'_>, label: &str, value: &[u8]) -> Message {
        let word = self.owner.word(value);
        let call = call!(RELABEL, entry.dir, entry.number, label, word.as_slice());
        call.with_owner(&word).into()
    }

    fn commit(&self, guards: &[Place<'_>], writes: &[Write]) -> Message {
        let mut call = call!(COMMIT, guards.len().to_string().as_str()).with(Acks::Written);
        for guard in guards {
            call.arguments.extend([guard.dir.written(), guard.number.written()]);
        }
        for write in writes {
            call.arguments.extend(match write {
                Write::Put { key, value } => {
                    ["put".written(), key.as_str().written(), value.clone()]
                }
                Write::Delete { key } => match Gate::named(self.bridge.as_ref(), key) {
                    Some(Gate { layout, key }) => {
                        ["gate".written(), key.as_str().written(), layout.word().written()]
                    }
                    None => ["del".written(), key.as_str().written(), Vec::new()],
                },
            });
        }
        call.into()
    }

    fn read(&self, key: &str) -> Message {
        call!(READ, key).into()
    }

    fn queues(&self, namespace: &str) -> Message {
        call!(QUEUES, namespace, "").continuing(Continues::AfterLast).into()
    }
}

pub(super) fn gate(dir: &str, gate: &Gate) -> Call {
    call!(GATE, dir, gate.layout.word(), gate.key.as_str())
}

pub(super) fn watch(entry: &Place<'_>) -> Call {
    call!(WATCH, entry.dir, entry.number)
}

pub(super) fn unwatch(dir: &str, number: u64) -> Call {
    call!(UNWATCH, dir, number)
}

pub(super) fn expiries(sessions: &[i64]) -> Call {
    call!(EXPIRIES).sweeping().telling_expiries(sessions)
}

/// Ends the sessions that are over, and removes all that these have left.
pub(super) fn sweep() -> Call {
    expiries(&[]).continuing(Continues::Again)
}

pub(super) fn list(dir: &str, values: bool, watch: bool, gate: Option<&Gate>) -> Call {
    let mut call = call!(LIST, dir, values, watch).with(Acks::Read);
    call.arguments.extend(Gate::arguments(gate));
    call
}
