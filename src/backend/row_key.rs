//! The keys of entries that are rows of a table: `{queue}/{session in hex}-{ticket}`, followed by
//! `.{label}` if the label is not empty.

use crate::backend::{Joiner, Ticket};

/// Returns the directory of the queue that a key is in.
pub(crate) fn dir_of(key: &str) -> &str {
    key.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// Returns the session that a key belongs to.
pub(crate) fn session_of(key: &str) -> Option<i64> {
    parts(key).map(|parts| parts.session)
}

/// The parts of an entry's key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    pub(crate) dir: &'a str,
    pub(crate) session: i64,
    pub(crate) ticket: &'a str,
    pub(crate) label: &'a str,
}

/// Parses a key. Returns `None` if it is not the key of an entry.
pub(crate) fn parts(key: &str) -> Option<Parts<'_>> {
    let (dir, name) = key.rsplit_once('/')?;
    let (session, rest) = name.split_once('-')?;
    let session = i64::from_str_radix(session, 16).ok()?;
    let (ticket, label) = rest.split_once('.').unwrap_or((rest, ""));
    Some(Parts { dir, session, ticket, label })
}

/// Returns the ticket in a key.
#[cfg_attr(not(any(feature = "mysql", feature = "postgres", feature = "redis")), allow(dead_code))]
pub(crate) fn ticket_in(key: &str) -> Option<Ticket> {
    Ticket::parse(parts(key)?.ticket)
}

/// Returns the key of an entry of this session. PostgreSQL's function `entry_ended` writes the same
/// key.
pub(crate) fn key(Joiner { queue, ticket }: Joiner<'_>, session: i64) -> String {
    written(queue.dir(), &format!("{session:x}"), &ticket.to_string(), queue.label())
}

pub(crate) fn written(dir: &str, session: &str, ticket: &str, label: &str) -> String {
    let dot = if label.is_empty() { "" } else { "." };
    format!("{dir}/{session}-{ticket}{dot}{label}")
}
