//! What is asked of the server, in words that the scripts understand.

use super::script::{
    CLOSE, COMMIT, EXPIRIES, FOLLOWED, HELLO, JOIN, KEEP_ALIVE, LEAVE, LIST, OPEN, OWN, PRESENT,
    QUEUES, READ, RELABEL, REWRITE, STANDING, Script, UNWATCH, WATCH,
};
use crate::backend::{
    Write,
    name::{Queue, Ticket},
    sql::{dialect::Joiner, key::Place, server_clock::Belief},
};

/// One request.
#[derive(Clone, Debug)]
pub(super) enum Message {
    Call(Call),
    /// How the server is set up.
    Settings,
}

/// One script, to be run with this.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) script: &'static Script,
    arguments: Vec<Vec<u8>>,
    /// Sessions that are over are put away before.
    pub(super) sweeps: bool,
    /// It goes by the connection that nothing else waits on.
    pub(super) beats: bool,
    /// Its first outcome tells how long some sessions will live.
    pub(super) tells_expiries: bool,
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
            tells_expiries: false,
        }
    };
}

impl Call {
    fn sweeping(self) -> Self {
        Self { sweeps: true, ..self }
    }

    /// Of these, in its last arguments.
    fn telling_expiries(mut self, sessions: &[i64]) -> Self {
        let ids = sessions.iter().map(|session| format!("{session:x}").into_bytes());
        self.arguments.extend(ids);
        Self { tells_expiries: true, ..self }
    }

    /// All arguments, of a session that has this to go by.
    pub(super) fn arguments(&self, session: i64, belief: Option<&Belief>) -> Vec<Vec<u8>> {
        let belief = belief.map(Belief::words).unwrap_or_default();
        let mut all = vec![format!("{session:x}").into_bytes(), belief.into_bytes()];
        all.extend_from_slice(&self.arguments);
        all
    }
}

impl From<Call> for Message {
    fn from(call: Call) -> Self {
        Self::Call(call)
    }
}

pub(super) fn open(microseconds: u64, server: &str, keeps: bool) -> Call {
    call!(OPEN, microseconds, server, keeps)
}

/// `before`: the server that the session was with last; another one is told of these releases.
pub(super) fn hello(server: &str, keeps: bool, before: &str, released: &[Ticket]) -> Call {
    let mut call = call!(HELLO, server, keeps, before);
    call.arguments.extend(released.iter().map(Argument::written));
    call
}

/// It asks after `others` on the way, that somebody waits for here: as long as these are renewed,
/// nobody has to look for them.
pub(super) fn keep_alive(others: &[i64]) -> Call {
    Call { beats: true, ..call!(KEEP_ALIVE) }.telling_expiries(others)
}

pub(super) fn close() -> Call {
    call!(CLOSE)
}

pub(super) fn join(joiners: &[Joiner<'_>], value: &[u8], if_free: bool) -> Call {
    let mut call = call!(JOIN, if_free, value).sweeping();
    for Joiner { queue, ticket } in joiners {
        call.arguments.extend([queue.dir().written(), ticket.written(), queue.label().written()]);
    }
    call
}

pub(super) fn standing(own: &Place<'_>) -> Call {
    call!(STANDING, own.dir, own.number).sweeping()
}

pub(super) fn present(own: &Place<'_>, ahead: &Place<'_>) -> Call {
    call!(PRESENT, own.dir, own.number, ahead.number).sweeping()
}

pub(super) fn own_entries() -> Call {
    call!(OWN)
}

pub(super) fn watch(entry: &Place<'_>) -> Call {
    call!(WATCH, entry.dir, entry.number).sweeping()
}

pub(super) fn unwatch(dir: &str, number: u64) -> Call {
    call!(UNWATCH, dir, number)
}

pub(super) fn expiries(sessions: &[i64]) -> Call {
    call!(EXPIRIES).sweeping().telling_expiries(sessions)
}

pub(super) fn leave(
    queue: &Queue,
    ticket: Ticket,
    number: Option<u64>,
    successor: Option<u64>,
) -> Call {
    call!(LEAVE, queue.dir(), ticket, queue.label(), number, successor)
}

/// With a watch no session is put away first, which would change the queue.
pub(super) fn list(dir: &str, values: bool, watch: bool) -> Call {
    Call { sweeps: !watch, ..call!(LIST, dir, values, watch) }
}

pub(super) fn rewrite(entry: &Place<'_>, value: &[u8], version: u64) -> Call {
    call!(REWRITE, entry.dir, entry.number, value, version)
}

pub(super) fn relabel(entry: &Place<'_>, label: &str, value: &[u8]) -> Call {
    call!(RELABEL, entry.dir, entry.number, label, value)
}

pub(super) fn commit(guard: Option<&Place<'_>>, writes: &[Write]) -> Call {
    let (dir, number) = (guard.map(|guard| guard.dir), guard.map(|guard| guard.number));
    let mut call = call!(COMMIT, dir, number);
    for write in writes {
        call.arguments.extend(match write {
            Write::Put { key, value } => ["put".written(), key.as_str().written(), value.clone()],
            Write::Delete { key } => ["del".written(), key.as_str().written(), Vec::new()],
        });
    }
    call
}

pub(super) fn read(key: &str) -> Call {
    call!(READ, key)
}

pub(super) fn queues(namespace: &str) -> Call {
    call!(QUEUES, namespace).sweeping()
}

pub(super) fn followed(entry: &Place<'_>) -> Call {
    call!(FOLLOWED, entry.dir, entry.number)
}
