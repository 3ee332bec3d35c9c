//! One connection, as the server sees it.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    net::TcpStream,
    time::{Duration, Instant},
};

use crate::{
    frames::{Frame, Frames, frames, message, read_texts, texts},
    text::{Listens, changes_settings, listens},
};

/// What a connection waits for.
#[derive(Debug)]
pub(crate) enum Work {
    LogIn { password: String },
    Run(Batch),
}

/// Messages that the server runs together.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) messages: Vec<u8>,
    /// When all of it had arrived.
    pub(crate) since: Instant,
    /// The texts of the statements that it executes.
    pub(crate) texts: Vec<String>,
    /// It may change settings beyond its transaction.
    pub(crate) sets: bool,
    pub(crate) listens: Vec<Listens>,
}

/// How long it waits for a lock and for the end of a statement, and how long it may be idle.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    pub(crate) lock: Option<Duration>,
    pub(crate) statement: Option<Duration>,
    pub(crate) idle: Option<Duration>,
}

#[derive(Debug)]
pub(crate) enum Phase {
    /// Before the name of the user.
    New,
    /// Before the password.
    Named,
    Ready,
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) phase: Phase,
    pub(crate) frames: Frames,
    pub(crate) user: String,
    /// What the client has said of itself.
    pub(crate) parameters: HashMap<String, String>,
    /// The settings of its session.
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) role: String,
    /// A setting may have changed since these were read.
    pub(crate) sets: bool,
    pub(crate) limits: Limits,
    /// When its last request ended.
    pub(crate) idle: Instant,
    /// The last text that it executed.
    pub(crate) last: String,
    pub(crate) channels: HashSet<String>,
    /// The texts of its prepared statements, by name.
    pub(crate) prepared: HashMap<String, String>,
    pub(crate) waiting: VecDeque<Work>,
    /// It has disconnected.
    pub(crate) gone: bool,
    arriving: Vec<u8>,
}

impl Client {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            phase: Phase::New,
            frames: Frames::default(),
            user: String::new(),
            parameters: HashMap::new(),
            settings: Vec::new(),
            role: String::new(),
            sets: false,
            limits: Limits::default(),
            idle: Instant::now(),
            last: String::new(),
            channels: HashSet::new(),
            prepared: HashMap::new(),
            waiting: VecDeque::new(),
            gone: false,
            arriving: Vec::new(),
        }
    }

    /// Takes a message that has arrived. Messages up to one that demands a reply are a batch.
    pub(crate) fn take(&mut self, number: u64, typed: &[u8]) {
        let kind = typed.first().copied().unwrap_or_default();
        if kind == b'X' {
            self.gone = true;
            return;
        }
        let Some(frame) = frames(typed).next() else { return };
        self.arriving.extend(renamed(number, frame));
        if !matches!(kind, b'Q' | b'S' | b'H' | b'c' | b'f') {
            return;
        }
        let messages = std::mem::take(&mut self.arriving);
        let (mut executed, mut sets, mut all) = (Vec::new(), false, Vec::new());
        let mut bound = String::new();
        for Frame { kind, body, .. } in frames(&messages) {
            let mut words = read_texts(body);
            let first = words.next().unwrap_or_default();
            let second = words.next().unwrap_or_default();
            match kind {
                b'Q' => executed.push(first),
                b'P' => {
                    self.prepared.insert(first, second);
                }
                b'B' => bound = self.prepared.get(&second).cloned().unwrap_or_default(),
                b'E' => executed.push(bound.clone()),
                b'C' if body.first() == Some(&b'S') => {
                    self.prepared.remove(first.get(1..).unwrap_or_default());
                }
                _ => {}
            }
        }
        for text in &executed {
            sets |= changes_settings(text);
            all.extend(listens(text));
        }
        let since = Instant::now();
        let batch = Batch { messages, since, texts: executed, sets, listens: all };
        self.waiting.push_back(Work::Run(batch));
    }
}

/// Gives a connection's prepared statements names that no other connection has.
fn renamed(number: u64, frame: Frame<'_>) -> Vec<u8> {
    let own = |name: &[u8]| match name {
        [] | [0, ..] => Vec::new(),
        _ => format!("c{number}_").into_bytes(),
    };
    let body = match frame.kind {
        b'P' => [own(frame.body), frame.body.to_vec()].concat(),
        b'B' => {
            let portal = frame.body.iter().position(|byte| *byte == 0).map_or(0, |at| at + 1);
            let (portal, rest) = frame.body.split_at(portal);
            [portal.to_vec(), own(rest), rest.to_vec()].concat()
        }
        b'D' | b'C' if frame.body.first() == Some(&b'S') => {
            [b"S".to_vec(), own(&frame.body[1..]), frame.body[1..].to_vec()].concat()
        }
        _ => return frame.whole.to_vec(),
    };
    message(frame.kind, &body)
}

/// Returns the first messages to a connection whose user has logged in.
pub(crate) fn welcome(number: u64) -> Vec<u8> {
    let parameters = [
        ("server_version", "17.5"),
        ("server_encoding", "UTF8"),
        ("client_encoding", "UTF8"),
        ("DateStyle", "ISO, MDY"),
        ("IntervalStyle", "postgres"),
        ("TimeZone", "UTC"),
        ("integer_datetimes", "on"),
        ("standard_conforming_strings", "on"),
    ];
    let mut bytes = message(b'R', &0_u32.to_be_bytes());
    for (name, value) in parameters {
        bytes.extend(message(b'S', &texts(&[name, value])));
    }
    bytes.extend(message(b'K', &number.to_be_bytes()));
    bytes.extend(message(b'Z', b"I"));
    bytes
}
