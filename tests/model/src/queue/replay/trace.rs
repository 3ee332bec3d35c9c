//! The events of a trace, one per line.
//!
//! `@FROM-TO` before an event bounds when it happened, in any unit. Without it, the events happened
//! in the order of their lines. Changes of keys are in the order of the store.

use std::fmt;

/// When an event happened: not before `from`, and not after `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Span {
    /// Returns `true` if both may have happened at the same time.
    pub(super) fn meets(self, other: Self) -> bool {
        self.from <= other.to && other.from <= self.to
    }
}

/// Why a key was deleted, as far as the recorder knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Unknown,
    /// Its client deleted it.
    Left,
    /// An operator deleted it.
    Deleted,
    /// The store ended its session.
    Expired,
    /// Its client closed the session.
    Closed,
}

impl How {
    const ALL: [(&'static str, Self); 5] = [
        ("gone", Self::Unknown),
        ("left", Self::Left),
        ("deleted", Self::Deleted),
        ("expired", Self::Expired),
        ("closed", Self::Closed),
    ];

    /// Returns `true` for the end of a session.
    pub(super) fn ends_session(self) -> bool {
        matches!(self, Self::Expired | Self::Closed)
    }
}

/// The number of a key: it rises in the order in which keys are created, and is the token.
pub(super) type Number = u64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    // Recorded at the store.
    /// A key joined a queue.
    Put { queue: String, key: Number, session: String, client: String, name: String },
    /// A key was deleted.
    Gone { how: How, key: Number },
    /// A session existed.
    Alive { session: String },
    // Recorded by an operator.
    /// He deleted the key of this name.
    Evict { name: String },
    // Recorded by clients.
    /// A call to acquire the lock starts.
    Call { call: String, client: String, queue: String },
    /// It returned a guard that is valid until then. 0: it never was valid.
    Granted { call: Option<String>, key: Number, name: Option<String>, until: Option<u64> },
    /// It returned without a guard.
    Returned { call: String },
    /// A guard is valid until then.
    Until { key: Number, until: u64 },
    /// A guard was reported lost. `evicted`: because its key was deleted.
    Lost { key: Number, evicted: bool },
    /// The client is about to release the lock.
    Release { key: Number, client: String },
    /// The release was confirmed.
    Released { key: Number },
    /// The client's process has ended.
    Ended { client: String },
}

/// A line of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// `None`: events happen in the order of the lines.
    pub(super) span: Option<Span>,
    pub(super) event: Event,
}

impl Line {
    pub(super) fn read(text: &str) -> Option<Self> {
        let (span, event) = match text.strip_prefix('@') {
            Some(text) => {
                let (span, event) = text.split_once(' ')?;
                let (from, to) = span.split_once('-').unwrap_or((span, span));
                (Some(Span { from: from.parse().ok()?, to: to.parse().ok()? }), event)
            }
            None => (None, text),
        };
        Some(Self { span, event: Event::read(event)? })
    }
}

impl Event {
    fn read(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let known = |word: &str| (word != "-").then(|| word.to_owned());
        Some(match words[..] {
            ["put", queue, key, session, client, name] => Self::Put {
                queue: queue.into(),
                key: key.parse().ok()?,
                session: session.into(),
                client: client.into(),
                name: name.into(),
            },
            ["alive", session] => Self::Alive { session: session.into() },
            ["evict", name] => Self::Evict { name: name.into() },
            ["call", call, client, queue] => {
                Self::Call { call: call.into(), client: client.into(), queue: queue.into() }
            }
            ["granted", call, key, name, until] => Self::Granted {
                call: known(call),
                key: key.parse().ok()?,
                name: known(name),
                until: known(until).map(|until| until.parse()).transpose().ok()?,
            },
            ["returned", call] => Self::Returned { call: call.into() },
            ["until", key, until] => {
                Self::Until { key: key.parse().ok()?, until: until.parse().ok()? }
            }
            ["lost", key, reason] => {
                Self::Lost { key: key.parse().ok()?, evicted: reason == "evicted" }
            }
            ["release", key, client] => {
                Self::Release { key: key.parse().ok()?, client: client.into() }
            }
            ["released", key] => Self::Released { key: key.parse().ok()? },
            ["ended", client] => Self::Ended { client: client.into() },
            [how, key] => {
                let how = How::ALL.iter().find(|(word, _)| *word == how)?.1;
                Self::Gone { how, key: key.parse().ok()? }
            }
            _ => return None,
        })
    }

    /// Returns `true` for a change of the store.
    pub(super) fn is_change(&self) -> bool {
        matches!(self, Self::Put { .. } | Self::Gone { .. })
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.span {
            Some(Span { from, to }) if from == to => write!(f, "@{from} ")?,
            Some(Span { from, to }) => write!(f, "@{from}-{to} ")?,
            None => {}
        }
        self.event.fmt(f)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put { queue, key, session, client, name } => {
                write!(f, "put {queue} {key} {session} {client} {name}")
            }
            Self::Gone { how, key } => {
                let word = How::ALL.iter().find(|(_, known)| known == how).map_or("", |it| it.0);
                write!(f, "{word} {key}")
            }
            Self::Alive { session } => write!(f, "alive {session}"),
            Self::Evict { name } => write!(f, "evict {name}"),
            Self::Call { call, client, queue } => write!(f, "call {call} {client} {queue}"),
            Self::Granted { call, key, name, until } => {
                let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
                let until = until.map(|until| until.to_string());
                write!(f, "granted {} {key} {} {}", known(call), known(name), known(&until))
            }
            Self::Returned { call } => write!(f, "returned {call}"),
            Self::Until { key, until } => write!(f, "until {key} {until}"),
            Self::Lost { key, evicted } => {
                write!(f, "lost {key} {}", if *evicted { "evicted" } else { "session" })
            }
            Self::Release { key, client } => write!(f, "release {key} {client}"),
            Self::Released { key } => write!(f, "released {key}"),
            Self::Ended { client } => write!(f, "ended {client}"),
        }
    }
}
