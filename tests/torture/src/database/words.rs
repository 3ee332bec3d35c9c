//! What an operator has to know of a store's own words, and of what distlock keeps there.

use std::fmt::Debug;

/// Statements, each of which tells rows. What a store does not keep is asked for by none.
pub(crate) trait Words: Debug + Send + Sync {
    /// Asks for nothing.
    fn nothing(&self) -> String;

    /// The keys that are in the queues of a namespace, each with its number.
    fn places(&self, namespace: &str) -> String;

    /// The ids of the sessions.
    fn sessions(&self) -> String {
        self.nothing()
    }

    /// How many are to be told something, if that is kept.
    fn watches(&self) -> Option<String> {
        None
    }

    /// From now on it is counted how often each key of data was written.
    fn counting(&self) -> &'static [&'static str] {
        &[]
    }

    /// Writes data that was not there.
    fn insert(&self, _dir: &str, _name: &str, _text: &str) -> String {
        self.nothing()
    }

    /// What a key of data holds, and how often it was written, or seen to have changed.
    fn look(&self, _dir: &str, _name: &str) -> String {
        self.nothing()
    }

    /// Deletes a key of data.
    fn erase(&self, _dir: &str, _name: &str) -> String {
        self.nothing()
    }

    /// Writes over the value of an entry.
    fn note(&self, _key: &str, _text: &str) -> String {
        self.nothing()
    }

    /// Deletes an entry.
    fn evict(&self, _key: &str) -> String {
        self.nothing()
    }

    /// What is in a packet that tells of an event; else the name of a lock is.
    fn event(&self) -> Option<&'static [u8]> {
        None
    }

    /// If that is in tables.
    fn tables(&self) -> Option<&Tables> {
        None
    }
}

/// The words of a database, and distlock's tables in it.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) sessions: &'static str,
    pub(crate) queues: &'static str,
    pub(crate) entries: &'static str,
    /// All entries, where they may be read, and deleted but for those in `alone`.
    pub(crate) members: &'static str,
    /// Where one that is alone in its queue is, whose `session` is NULL once it is deleted; if that
    /// is another table.
    pub(crate) alone: Option<&'static str>,
    pub(crate) data: &'static str,
    /// Where those are who are to be told, if that is kept.
    pub(crate) watches: Option<&'static str>,
    /// What makes the key of an entry.
    pub(crate) key: &'static str,
    /// The value of data as a text.
    pub(crate) text: &'static str,
    /// What stands before and after a text that is a value.
    pub(crate) value: [&'static str; 2],
    /// Columns of data that have to be written besides, and what is written.
    pub(crate) besides: [&'static str; 2],
    /// From now on the table `torture_writes` counts how often each key of data was written.
    pub(crate) counting: &'static [&'static str],
    /// Begins a transaction that is going to lock something.
    pub(crate) begin: &'static str,
    /// At the end of a question: what it finds is locked. Nothing, if the transaction locks it all.
    pub(crate) locking: Option<&'static str>,
    /// Makes it read-only, and ends that.
    pub(crate) read_only: [&'static [&'static str]; 2],
    /// Asked just before its disk is full, and while it is: so that it needs room soon.
    pub(crate) room: [&'static [&'static str]; 2],
    /// What is in a packet that tells of an event; else the name of a lock is.
    pub(crate) event: Option<&'static [u8]>,
}

impl Tables {
    fn bytes(&self, text: &str) -> String {
        self.value.join(text)
    }

    /// Which row an entry is.
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

    fn look(&self, dir: &str, name: &str) -> String {
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

/// What is in the queues below this.
pub(crate) fn within(namespace: &str) -> String {
    format!("queue >= '{namespace}/' AND queue < '{namespace}0'")
}

/// A key's directory, and its name there.
pub(crate) fn parts(key: &str) -> (&str, &str) {
    key.rsplit_once('/').unwrap_or(("", key))
}
