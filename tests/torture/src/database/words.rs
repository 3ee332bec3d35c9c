//! The statements of an operator on a store, and where distlock keeps its data there.

use std::fmt::Debug;

/// Statements, each of which returns rows. A statement on data that the store does not keep returns
/// none.
pub(crate) trait Words: Debug + Send + Sync {
    /// Does nothing.
    fn nothing(&self) -> String;

    /// Selects the keys in the queues of a namespace, with their numbers.
    fn places(&self, namespace: &str) -> String;

    /// Selects the ids of the sessions.
    fn sessions(&self) -> String {
        self.nothing()
    }

    /// Counts the registered watches, if they are stored.
    fn watches(&self) -> Option<String> {
        None
    }

    /// Starts counting the writes to each key of data.
    fn counting(&self) -> &'static [&'static str] {
        &[]
    }

    /// Inserts data.
    fn insert(&self, _dir: &str, _name: &str, _text: &str) -> String {
        self.nothing()
    }

    /// Selects the value of a key of data, and how often it was written or seen to change.
    fn read(&self, _dir: &str, _name: &str) -> String {
        self.nothing()
    }

    /// Deletes a key of data.
    fn erase(&self, _dir: &str, _name: &str) -> String {
        self.nothing()
    }

    /// Overwrites the value of an entry.
    fn note(&self, _key: &str, _text: &str) -> String {
        self.nothing()
    }

    /// Deletes an entry.
    fn evict(&self, _key: &str) -> String {
        self.nothing()
    }

    /// Returns bytes that identify packets with an event. Without any, the name of a lock does.
    fn event(&self) -> Option<&'static [u8]> {
        None
    }

    /// Returns the tables, if the store has tables.
    fn tables(&self) -> Option<&Tables> {
        None
    }
}

/// The dialect of a database, and distlock's tables in it.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) sessions: &'static str,
    pub(crate) queues: &'static str,
    pub(crate) entries: &'static str,
    /// A table or view of all entries. Entries may be deleted there, except those in `alone`.
    pub(crate) members: &'static str,
    /// The table of entries that are alone in their queues, if there is one. Deleting sets
    /// `session` to NULL.
    pub(crate) alone: Option<&'static str>,
    pub(crate) data: &'static str,
    /// The table of watches, if they are stored.
    pub(crate) watches: Option<&'static str>,
    /// The expression of an entry's key.
    pub(crate) key: &'static str,
    /// The expression of a value as text.
    pub(crate) text: &'static str,
    /// The parts of a value literal before and after its text.
    pub(crate) value: [&'static str; 2],
    /// Further columns of data to write, and their values.
    pub(crate) besides: [&'static str; 2],
    /// Makes the table `torture_writes` count the writes to each key of data.
    pub(crate) counting: &'static [&'static str],
    /// Starts a transaction with locks.
    pub(crate) begin: &'static str,
    /// The suffix by which a query locks its rows. `None` if the transaction locks everything.
    pub(crate) locking: Option<&'static str>,
    /// Statements that make the database read-only, and writable again.
    pub(crate) read_only: [&'static [&'static str]; 2],
    /// Statements before and during a full disk, by which the server needs space soon.
    pub(crate) room: [&'static [&'static str]; 2],
    /// Bytes that identify packets with an event. Without any, the name of a lock does.
    pub(crate) event: Option<&'static [u8]>,
}

impl Tables {
    fn bytes(&self, text: &str) -> String {
        self.value.join(text)
    }

    /// Returns the condition that selects an entry's row.
    fn entry(&self, key: &str) -> String {
        let (dir, _) = parts(key);
        format!("queue = '{dir}' AND {} = '{key}'", self.key)
    }
}

impl Words for Tables {
    fn nothing(&self) -> String {
        "SELECT 1".to_owned()
    }

    fn places(&self, namespace: &str) -> String {
        let (key, entries, within) = (self.key, self.members, within(namespace));
        format!("SELECT {key}, number FROM {entries} WHERE {within}")
    }

    fn sessions(&self) -> String {
        format!("SELECT id FROM {}", self.sessions)
    }

    fn watches(&self) -> Option<String> {
        self.watches.map(|table| format!("SELECT count(*) FROM {table}"))
    }

    fn counting(&self) -> &'static [&'static str] {
        self.counting
    }

    fn insert(&self, dir: &str, name: &str, text: &str) -> String {
        let [columns, values] = self.besides;
        format!(
            "INSERT INTO {} (dir, name, value{columns}) VALUES ('{dir}', '{name}', {}{values})",
            self.data,
            self.bytes(text)
        )
    }

    fn read(&self, dir: &str, name: &str) -> String {
        format!(
            "SELECT {}, (SELECT version FROM torture_writes AS w \
             WHERE w.dir = d.dir AND w.name = d.name) \
             FROM {} AS d WHERE dir = '{dir}' AND name = '{name}'",
            self.text, self.data
        )
    }

    fn erase(&self, dir: &str, name: &str) -> String {
        format!("DELETE FROM {} WHERE dir = '{dir}' AND name = '{name}'", self.data)
    }

    fn note(&self, key: &str, text: &str) -> String {
        let (value, entry) = (self.bytes(text), self.entry(key));
        let note = |table| {
            format!("UPDATE {table} SET value = {value}, version = version + 1 WHERE {entry}")
        };
        let all: Vec<_> = self.alone.into_iter().chain([self.entries]).map(note).collect();
        all.join("; ")
    }

    fn evict(&self, key: &str) -> String {
        let entry = self.entry(key);
        match self.alone {
            None => format!("DELETE FROM {} WHERE {entry}", self.members),
            Some(alone) => format!(
                "UPDATE {alone} SET session = NULL WHERE {entry}; DELETE FROM {} WHERE {entry}",
                self.entries
            ),
        }
    }

    fn event(&self) -> Option<&'static [u8]> {
        self.event
    }

    fn tables(&self) -> Option<&Tables> {
        Some(self)
    }
}

/// Returns the condition that selects the queues below a namespace.
pub(crate) fn within(namespace: &str) -> String {
    format!("queue >= '{namespace}/' AND queue < '{namespace}0'")
}

/// Splits a key into its directory and its name.
pub(crate) fn parts(key: &str) -> (&str, &str) {
    key.rsplit_once('/').unwrap_or(("", key))
}
