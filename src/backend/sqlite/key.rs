//! Maps keys to the rows of entries.

use crate::backend::Entry;
pub(crate) use crate::backend::row_key::{Parts, dir_of, key, parts, session_of, written};

/// The place of an entry's row.
pub(super) struct Place<'a> {
    pub(super) dir: &'a str,
    pub(super) number: i64,
}

impl<'a> Place<'a> {
    pub(super) fn of(entry: &'a Entry) -> Self {
        // Numbers above this limit are never drawn.
        let number = i64::try_from(entry.revision).unwrap_or(i64::MAX);
        Self { dir: dir_of(&entry.key), number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Joiner, Queue, Ticket};

    #[test]
    fn keys_are_read_as_they_are_written() {
        let (queue, ticket) = (Queue::new("/ns", "a.b-c").unwrap(), Ticket::random());
        for label in ["", "r", "w@7", "5+3"] {
            let key = key(Joiner { queue: &queue.labelled(label), ticket }, i64::MAX);
            assert_eq!((dir_of(&key), session_of(&key)), (queue.dir(), Some(i64::MAX)));
        }
        for foreign in ["", "/", "/ns/a/x-1", "/ns/a/12"] {
            assert_eq!(session_of(foreign), None);
        }
    }
}
