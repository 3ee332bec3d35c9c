//! The server's state except its scripts: clients, settings, counters, and its identity.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    keys::{Key, Keys, Value},
    reply::Reply,
};

pub(crate) const WRONG_TYPE: &str =
    "WRONGTYPE Operation against a key holding the wrong kind of value";

/// The connection of an operator, which always exists.
pub(crate) const OPERATOR: u64 = 0;

/// A client's connection.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    pub(crate) user: Option<String>,
    /// It has requested RESP3.
    pub(crate) newer: bool,
    pub(crate) channels: BTreeSet<Vec<u8>>,
    pub(crate) patterns: BTreeSet<Vec<u8>>,
    /// It is shown all commands: see `monitor.rs`.
    pub(crate) monitors: bool,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) keys: Keys,
    pub(crate) connections: BTreeMap<u64, Connection>,
    pub(crate) pushes: Vec<(u64, Reply)>,
    pub(crate) users: BTreeMap<String, String>,
    pub(crate) settings: BTreeMap<String, String>,
    /// How often each command was called.
    pub(crate) calls: BTreeMap<String, u64>,
    /// The time on its clock, in microseconds since 1970.
    pub(crate) now: i64,
    /// How far its clock was set ahead of the time that it is given.
    pub(crate) ahead: i64,
    pub(crate) started: i64,
    /// Tells this server from others.
    pub(crate) name: String,
    pub(crate) run_id: String,
    pub(crate) history: String,
    /// The history of its former primary, or zeros.
    pub(crate) former_history: String,
    /// It copies another server, which never replies.
    pub(crate) is_replica: bool,
    /// How many processes there have been.
    pub(crate) starts: u64,
    /// How many replication histories there have been.
    histories: u64,
    /// A script is running that may use memory although none is left.
    pub(crate) may_grow: bool,
}

impl State {
    pub(crate) fn new(now: i64) -> Self {
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let settings = pairs(&[
            ("appendonly", "yes"),
            ("appendfsync", "always"),
            ("no-appendfsync-on-rewrite", "no"),
            ("maxmemory", "0"),
            ("maxmemory-policy", "noeviction"),
        ]);
        let mut state = Self {
            keys: Keys::default(),
            connections: BTreeMap::new(),
            pushes: Vec::new(),
            users: pairs(&[("default", "root"), ("app", "apppw")]),
            settings,
            calls: BTreeMap::new(),
            now,
            ahead: 0,
            started: now,
            name: String::new(),
            run_id: String::new(),
            history: String::new(),
            former_history: "0".repeat(40),
            is_replica: false,
            starts: 0,
            histories: 0,
            may_grow: false,
        };
        state.start();
        state
    }

    /// Starts another process.
    pub(crate) fn start(&mut self) {
        self.starts += 1;
        let operator = Connection { user: Some("default".into()), ..Connection::default() };
        self.connections.insert(OPERATOR, operator);
        self.started = self.now;
        self.run_id = named(&self.name, "process", self.starts);
        self.begin_history();
        self.calls.clear();
    }

    /// Starts a new replication history: later writes are not part of the former one.
    pub(crate) fn begin_history(&mut self) {
        self.histories += 1;
        self.history = named(&self.name, "history", self.histories);
    }

    /// Promotes a replica to the successor of the server that it copied.
    pub(crate) fn promote(&mut self) {
        if std::mem::take(&mut self.is_replica) {
            self.former_history.clone_from(&self.history);
            self.begin_history();
        }
    }

    /// Returns `true` if its memory is used up: every limit below this one counts as reached.
    pub(crate) fn is_full(&self) -> bool {
        const SMALL: u64 = 1 << 20;
        (1..SMALL).contains(&self.setting("maxmemory").parse().unwrap_or(0))
    }

    /// Returns `true` if it says that it is part of a cluster. It has all keys nevertheless.
    pub(crate) fn is_of_cluster(&self) -> bool {
        self.setting("cluster-enabled") == "yes"
    }

    /// Returns the time in milliseconds, for the expiry of keys.
    pub(crate) fn now_ms(&self) -> i64 {
        self.now.div_euclid(1000)
    }

    pub(crate) fn setting(&self, name: &str) -> &str {
        self.settings.get(name).map_or("", String::as_str)
    }

    pub(crate) fn key(&mut self, name: &[u8]) -> Option<&Key> {
        let now = self.now_ms();
        self.keys.get(name, now)
    }

    pub(crate) fn key_mut(&mut self, name: &[u8]) -> Option<&mut Key> {
        let now = self.now_ms();
        self.keys.get_mut(name, now)
    }

    pub(crate) fn value_mut(&mut self, name: &[u8], empty: Value) -> &mut Value {
        let now = self.now_ms();
        self.keys.value_mut(name, now, empty)
    }

    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        let now = self.now_ms();
        self.keys.remove(name, now)
    }

    /// Publishes a message; returns the number of receivers.
    pub(crate) fn publish(&mut self, channel: &[u8], text: &[u8]) -> usize {
        let mut heard = 0;
        for (id, connection) in &self.connections {
            if connection.channels.contains(channel) {
                let words = [&b"message"[..], channel, text].map(Reply::text);
                self.pushes.push((*id, Reply::Push(words.to_vec())));
                heard += 1;
            }
            for pattern in connection.patterns.iter().filter(|it| matches(it, channel)) {
                let words = [&b"pmessage"[..], pattern, channel, text].map(Reply::text);
                self.pushes.push((*id, Reply::Push(words.to_vec())));
                heard += 1;
            }
        }
        heard
    }
}

fn named(server: &str, what: &str, number: u64) -> String {
    sha1_smol::Sha1::from(format!("{server}{what} {number}")).digest().to_string()
}

/// Returns `true` if a name matches a pattern, in which a star is any number of bytes.
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|at| matches(rest, &name[at..])),
        Some((b'?', rest)) => name.split_first().is_some_and(|(_, others)| matches(rest, others)),
        Some((b'\\', rest)) if !rest.is_empty() => {
            name.first() == rest.first() && matches(&rest[1..], &name[1..])
        }
        Some((byte, rest)) => name.first() == Some(byte) && matches(rest, &name[1..]),
    }
}
