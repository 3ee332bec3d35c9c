//! Keys, which name the rows of entries.

use super::outcome::Row;
pub(crate) use crate::backend::row_key::{dir_of, key, parts, session_of, ticket_in};
use crate::backend::{Entry, row_key::written};

/// The place of an entry's row.
pub(crate) struct Place<'a> {
    pub(crate) dir: &'a str,
    pub(crate) number: u64,
}

impl<'a> Place<'a> {
    pub(crate) fn of(entry: &'a Entry) -> Self {
        Self { dir: dir_of(&entry.key), number: entry.revision }
    }
}

/// Reads the entry of a row that begins with number, session, ticket and label.
pub(crate) fn entry(dir: &str, row: &Row) -> Option<Entry> {
    let number = u64::try_from(row.number(0)?).ok()?;
    Some(Entry::new(written(dir, row.text(1)?, row.text(2)?, row.text(3)?), number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Joiner, Queue, Ticket, row_key::Parts, sql::outcome::Outcome};

    #[test]
    fn keys_are_read_as_they_are_written() {
        let (queue, ticket) = (Queue::new("/ns", "a.b-c").unwrap(), Ticket::random());
        for label in ["", "r", "w@7", "5+3"] {
            let (queue, session) = (queue.labelled(label), i64::MAX);
            let key = key(Joiner { queue: &queue, ticket }, session);
            let (dir, ticket) = (queue.dir(), &*ticket.to_string());
            assert_eq!(dir_of(&key), dir);
            assert_eq!(ticket_in(&key), Ticket::parse(ticket));
            assert_eq!(parts(&key), Some(Parts { dir, session, ticket, label }));
            let row = ["12", &format!("{session:x}"), ticket, label];
            let outcome = Outcome::of_one(&row);
            let entry = entry(queue.dir(), outcome.first().unwrap()).unwrap();
            assert_eq!((&*entry.key, entry.revision, entry.token), (&*key, 12, 12));
        }
        for foreign in ["", "/", "/ns/a/x-1", "/ns/a/12"] {
            assert_eq!(session_of(foreign), None);
            assert_eq!(ticket_in(foreign), None);
        }
    }
}
