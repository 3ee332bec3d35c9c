//! The keys of entries that are rows of a table: `{queue}/{session in hex}-{ticket}`, and
//! `.{label}` if there is one.

use crate::backend::Joiner;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
use crate::backend::Ticket;

/// The queue that a key is in.
pub(crate) fn dir_of(key: &str) -> &str {
    key.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// The session that a key belongs to.
pub(crate) fn session_of(key: &str) -> Option<i64> {
    parts(key).map(|parts| parts.session)
}

/// What a key says of its entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    pub(crate) dir: &'a str,
    pub(crate) session: i64,
    pub(crate) ticket: &'a str,
    pub(crate) label: &'a str,
}

/// `None`: it is no entry's.
pub(crate) fn parts(key: &str) -> Option<Parts<'_>> {
    let (dir, name) = key.rsplit_once('/')?;
    let (session, rest) = name.split_once('-')?;
    let session = i64::from_str_radix(session, 16).ok()?;
    let (ticket, label) = rest.split_once('.').unwrap_or((rest, ""));
    Some(Parts { dir, session, ticket, label })
}

/// The ticket that a key names.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(crate) fn ticket_in(key: &str) -> Option<Ticket> {
    Ticket::parse(parts(key)?.ticket)
}

/// The key of an entry of this session's. PostgreSQL's trigger `changed` writes the same.
pub(crate) fn key(Joiner { queue, ticket }: Joiner<'_>, session: i64) -> String {
    written(queue.dir(), &format!("{session:x}"), &ticket.to_string(), queue.label())
}

pub(crate) fn written(dir: &str, session: &str, ticket: &str, label: &str) -> String {
    let dot = if label.is_empty() { "" } else { "." };
    format!("{dir}/{session}-{ticket}{dot}{label}")
}
