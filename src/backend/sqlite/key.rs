//! Keys: what an entry's row is called.

use crate::backend::{
    Entry,
    name::{Queue, Ticket},
};

/// Where an entry's row is.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) dir: String,
    pub(super) number: i64,
}

impl Place {
    pub(super) fn of(entry: &Entry) -> Self {
        Self { dir: dir_of(&entry.key).to_owned(), number: number(entry) }
    }
}

/// No number is above what fits.
pub(super) fn number(entry: &Entry) -> i64 {
    i64::try_from(entry.revision).unwrap_or(i64::MAX)
}

/// The queue that a key is in.
pub(super) fn dir_of(key: &str) -> &str {
    key.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// The session that a key belongs to.
pub(crate) fn session_of(key: &str) -> Option<i64> {
    let (_, name) = key.rsplit_once('/')?;
    i64::from_str_radix(name.split_once('-')?.0, 16).ok()
}

/// `{queue}/{session in hex}-{ticket}`, and `.{label}` if there is one.
pub(super) fn key(queue: &Queue, session: i64, ticket: Ticket) -> String {
    written(queue.dir(), session, &ticket.to_string(), queue.label())
}

pub(super) fn written(dir: &str, session: i64, ticket: &str, label: &str) -> String {
    let dot = if label.is_empty() { "" } else { "." };
    format!("{dir}/{session:x}-{ticket}{dot}{label}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        let (queue, ticket) = (Queue::new("/ns", "a.b-c").unwrap(), Ticket::random());
        for label in ["", "r", "w@7", "5+3"] {
            let key = key(&queue.labelled(label), i64::MAX, ticket);
            assert_eq!((dir_of(&key), session_of(&key)), (queue.dir(), Some(i64::MAX)));
        }
        for foreign in ["", "/", "/ns/a/x-1", "/ns/a/12"] {
            assert_eq!(session_of(foreign), None);
        }
    }
}
