//! Random requests.

use std::fmt;

use fastrand::Rng;

use super::{
    USERS,
    wire::{Record, UNKNOWN},
};

/// An action of one of the two clients.
pub(super) struct Step {
    pub(super) by: usize,
    pub(super) act: Act,
    /// The step in words, for the message about a difference.
    words: String,
}

pub(super) enum Act {
    /// A request of this kind.
    Request(i32, Vec<u8>),
    /// Sends credentials.
    Auth(&'static str, &'static str),
    /// Restores former watches, as of one of the sequence's transactions.
    SetWatches { newer: bool, since: usize, lists: [Vec<String>; 5] },
    /// Ends the session.
    Close,
    /// Resumes the session on another connection.
    Reconnect { password: bool, timeout: i32 },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {}: {}", self.by, self.words)
    }
}

type Acls = &'static [(i32, &'static str, &'static str)];

/// Rights. One of the users has all rights to each node.
const ACLS: [Acls; 6] = [
    &[(31, "auth", "")],
    &[(1, "world", "anyone"), (31, "digest", A)],
    &[(6, "world", "anyone"), (31, "digest", B)],
    &[(24, "world", "anyone"), (24, "world", "anyone"), (31, "digest", A)],
    &[(31, "digest", B), (17, "digest", A)],
    &[(31, "world", "anyone"), (31, "digest", A)],
];

/// Rights that a server refuses.
const BAD_ACLS: [Acls; 4] =
    [&[], &[(31, "riddle", "a")], &[(31, "digest", "a:b:c")], &[(31, "world", "someone")]];

/// The two users in the form that nodes store.
const A: &str = "a:mDmPUap4qvYwm+PZOtJ/scGyHLY=";
const B: &str = "b:+F8zPn3x1CLx3qpYHEaRwIheWcc=";

fn one_of<T: Copy>(dice: &mut Rng, all: &[T]) -> T {
    all[dice.usize(..all.len())]
}

fn path(dice: &mut Rng, root: &str) -> String {
    let below = ["", "/a", "/a", "/b", "/b", "/c", "/a/a", "/a/b", "/b/a", "/a-", "/a/a/a"];
    let odd = ["/", "//a", "/a/..", "/.", "/a\u{1}", "/a\0", "/b/\u{1f512}"];
    match dice.u8(..40) {
        0 => format!("{root}{}", one_of(dice, &odd)),
        1 => one_of(dice, &["", "a", "/zookeeper/quota", "/zookeeper", "/alike-none/a"]).to_owned(),
        _ => format!("{root}{}", one_of(dice, &below)),
    }
}

fn version(dice: &mut Rng) -> i32 {
    one_of(dice, &[-1, -1, -1, 0, 0, 1, 2, 7, -2])
}

fn data(dice: &mut Rng) -> Option<&'static [u8]> {
    one_of(dice, &[Some(b""), Some(b"x"), Some(b"some data"), None])
}

fn acls(dice: &mut Rng) -> Acls {
    match dice.u8(..12) {
        0 => one_of(dice, &BAD_ACLS),
        1..=3 => one_of(dice, &ACLS),
        _ => &[(31, "world", "anyone")],
    }
}

/// Returns the kind, the body and a description of a write request.
fn write(dice: &mut Rng, root: &str, kinds: &[i32]) -> (i32, Record, String) {
    let (kind, path) = (one_of(dice, kinds), path(dice, root));
    let body = Record::default().text(&path);
    let (body, words) = match kind {
        1 | 15 | 19 => {
            let flags = match kind {
                19 => 4,
                _ => one_of(dice, &[0, 0, 0, 0, 1, 1, 2, 3, 3, 5, 9]),
            };
            let (data, acls) = (data(dice), acls(dice));
            (body.buffer(data).acls(acls).int(flags), format!("{data:?} {acls:?} flags {flags}"))
        }
        21 => {
            let acls = acls(dice);
            (body.buffer(None).acls(acls).int(5).long(10_000), format!("{acls:?} for a time"))
        }
        5 => {
            let (data, version) = (data(dice), version(dice));
            (body.buffer(data).int(version), format!("{data:?} version {version}"))
        }
        7 => {
            let (acls, version) = (acls(dice), version(dice));
            (body.acls(acls).int(version), format!("{acls:?} version {version}"))
        }
        _ => {
            let version = version(dice);
            (body.int(version), format!("version {version}"))
        }
    };
    (kind, body, format!("{kind} {path:?} {words}"))
}

/// Returns a transaction of several writes.
fn multi(dice: &mut Rng, root: &str) -> (Record, String) {
    let (mut body, mut words) = (Record::default(), String::new());
    for _ in 0..dice.u8(..4) {
        let kinds = [1, 15, 15, 19, 2, 2, 5, 5, 13, 13];
        let (kind, operation, operation_words) = write(dice, root, &kinds);
        body = body.int(kind).flag(false).int(-1).append(operation);
        words += &format!(" ({operation_words})");
    }
    (body.int(-1).flag(true).int(-1), format!("multi{words}"))
}

fn multi_read(dice: &mut Rng, root: &str) -> (Record, String) {
    let (mut body, mut words) = (Record::default(), String::new());
    for _ in 0..dice.u8(..4) {
        let (kind, path) = (one_of(dice, &[4, 4, 8]), path(dice, root));
        body = body.int(kind).flag(false).int(-1).text(&path).flag(false);
        words += &format!(" ({kind} {path:?})");
    }
    (body.int(-1).flag(true).int(-1), format!("multi read{words}"))
}

fn read(dice: &mut Rng, root: &str) -> (i32, Record, String) {
    let kinds = [3, 3, 4, 4, 6, 8, 12, 12, 9, 103, 104, 106, 17, 18];
    let (kind, path) = (one_of(dice, &kinds), path(dice, root));
    // Never count all nodes of the server.
    let path = if kind == 104 && path.len() < root.len() { root.to_owned() } else { path };
    let body = Record::default().text(&path);
    let more = match kind {
        3 | 4 | 8 | 12 => i32::from(dice.u8(..3) > 0),
        106 => one_of(dice, &[0, 1, 1, 2]),
        17 | 18 => one_of(dice, &[1, 2, 3, 3, 4, 5, 6]),
        _ => 0,
    };
    let body = match kind {
        3 | 4 | 8 | 12 => body.flag(more > 0),
        17 | 18 | 106 => body.int(more),
        _ => body,
    };
    (kind, body, format!("{kind} {path:?} {more}"))
}

/// Returns the next step of a sequence below the node `root`.
pub(super) fn step(dice: &mut Rng, root: &str) -> Step {
    let by = dice.usize(..2);
    let (act, words) = match dice.u8(..100) {
        0..=1 => (Act::Close, "ends its session".to_owned()),
        2..=4 => {
            let (password, timeout) = (dice.u8(..5) > 0, one_of(dice, &[1, 15_000, 1_000_000]));
            let words = format!("reconnects with timeout {timeout}, right password: {password}");
            (Act::Reconnect { password, timeout }, words)
        }
        5..=8 => {
            let (scheme, user) = match dice.u8(..8) {
                0 => ("riddle", "a"),
                _ => ("digest", one_of(dice, &USERS)),
            };
            (Act::Auth(scheme, user), format!("authenticates as {scheme} {user}"))
        }
        9..=12 => {
            let (newer, since) = (dice.bool(), dice.usize(..10));
            let lists = [(); 5].map(|()| (0..dice.u8(..3)).map(|_| path(dice, root)).collect());
            let words = format!("watches {lists:?} since {since}, all: {newer}");
            (Act::SetWatches { newer, since, lists }, words)
        }
        13 => (Act::Request(UNKNOWN, Vec::new()), "sends an unknown request".to_owned()),
        14..=17 => {
            let (body, words) = multi_read(dice, root);
            (Act::Request(22, body.bytes()), words)
        }
        18..=32 => {
            let (body, words) = multi(dice, root);
            (Act::Request(14, body.bytes()), words)
        }
        33..=65 => {
            let (kind, body, words) = read(dice, root);
            (Act::Request(kind, body.bytes()), words)
        }
        _ => {
            let kinds = [1, 1, 15, 15, 15, 15, 19, 19, 21, 2, 2, 2, 2, 5, 5, 5, 7];
            let (kind, body, words) = write(dice, root, &kinds);
            (Act::Request(kind, body.bytes()), words)
        }
    };
    match act {
        // Rarely truncate the request.
        Act::Request(kind, mut body) if body.len() > 3 && dice.u8(..40) == 0 => {
            body.truncate(body.len() - 3);
            Step { by, act: Act::Request(kind, body), words: words + ", truncated" }
        }
        act => Step { by, act, words },
    }
}
