//! Keys: what an entry's row is called.

pub(crate) use crate::backend::row_key::{Parts, dir_of, parts, session_of};
use crate::backend::{
    Entry,
    name::{Queue, Ticket},
    row_key,
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

/// `{queue}/{session in hex}-{ticket}`, and `.{label}` if there is one.
pub(super) fn key(queue: &Queue, session: i64, ticket: Ticket) -> String {
    written(queue.dir(), session, &ticket.to_string(), queue.label())
}

pub(super) fn written(dir: &str, session: i64, ticket: &str, label: &str) -> String {
    row_key::written(dir, &format!("{session:x}"), ticket, label)
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
