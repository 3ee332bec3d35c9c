//! The scripts that the server runs. Each call runs one script, as one transaction.

use std::sync::OnceLock;

use redis::Cmd;

/// A script. The server knows it by its hash once it has run it.
#[derive(Debug)]
pub(super) struct Script {
    /// The script also runs on a server that is full.
    frees: bool,
    /// The parts of its text.
    parts: &'static [&'static str],
    made: OnceLock<Made>,
}

#[derive(Debug)]
struct Made {
    code: String,
    hash: String,
}

macro_rules! text {
    ($file:literal) => {
        include_str!(concat!("scripts/", $file, ".lua"))
    };
}

macro_rules! scripts {
    ($($name:ident: $frees:literal, [$($file:literal)*];)*) => {
        $(pub(super) static $name: Script = Script {
            frees: $frees,
            parts: &[$(text!($file)),*],
            made: OnceLock::new(),
        };)*

        /// All scripts.
        #[cfg(test)]
        const ALL: &[&Script] = &[$(&$name),*];
    };
}

scripts! {
    ADOPT: true, ["adopt"];
    CLOSE: true, ["base" "entries" "sessions" "gates" "close"];
    COMMIT: false, ["base" "entries" "sessions" "gates" "commit"];
    CONFIRM: true, ["base" "confirm"];
    EXPIRIES: true, ["base" "entries" "sessions" "gates" "expiries"];
    FORMER: true, ["former"];
    GATE: true, ["base" "entries" "sessions" "gates" "gate"];
    HELLO: true, ["base" "entries" "sessions" "gates" "server" "hello"];
    JOIN: false, ["join_first" "base" "entries" "sessions" "gates" "join"];
    KEEP_ALIVE: true, ["base" "entries" "sessions" "gates" "keep_alive"];
    KEPT: true, ["base" "kept"];
    LABELS: true, ["base" "entries" "sessions" "labels"];
    LEAVE: true, ["leave_first" "base" "entries" "sessions" "gates" "leave"];
    LIST: true, ["base" "entries" "sessions" "gates" "list"];
    NEAREST: true, ["base" "entries" "sessions" "nearest"];
    OPEN: false, ["base" "entries" "sessions" "gates" "server" "open"];
    OWN: true, ["base" "entries" "own"];
    PRESENT: true, ["base" "entries" "sessions" "gates" "present"];
    QUEUES: true, ["base" "queues"];
    READ: true, ["base" "read"];
    RELABEL: true, ["base" "entries" "relabel"];
    REWRITE: false, ["base" "entries" "rewrite"];
    STANDING: true, ["base" "entries" "sessions" "gates" "standing"];
    UNWATCH: true, ["base" "entries" "unwatch"];
    WATCH: true, ["base" "entries" "sessions" "watch"];
}

impl Script {
    fn made(&self) -> &Made {
        self.made.get_or_init(|| {
            let flags = if self.frees { " flags=allow-oom" } else { "" };
            let code = format!("#!lua{flags}\n{}", self.parts.join("\n"));
            Made { hash: redis::Script::new(&code).get_hash().to_owned(), code }
        })
    }

    /// Returns the command that runs the script on these keys, without its arguments. `whole`: it
    /// contains the script's text, because the server does not know the hash.
    pub(super) fn command(&self, keys: &[String], whole: bool) -> Cmd {
        let Made { code, hash } = self.made();
        let (name, script) = if whole { ("EVAL", code) } else { ("EVALSHA", hash) };
        let mut command = redis::cmd(name);
        command.arg(script).arg(keys.len()).arg(keys);
        command
    }
}

/// The keys of a namespace. They are in one slot, as a script may touch no others: a cluster
/// chooses the slot by the text in the first braces.
#[derive(Clone, Debug)]
pub(super) struct Keys([String; 4]);

impl Keys {
    pub(super) fn of(namespace: &str) -> Self {
        Self(["meta", "queue", "sessions", "data"].map(|name| key(namespace, name)))
    }

    pub(super) fn all(&self) -> &[String] {
        &self.0
    }

    pub(super) fn meta(&self) -> &str {
        &self.0[0]
    }

    /// Returns the key of all queues' entries.
    pub(super) fn queue(&self) -> &str {
        &self.0[1]
    }

    /// Returns the channel on which a session is notified.
    pub(super) fn channel(&self, session: i64) -> String {
        let meta = self.meta();
        format!("{}{session:x}", meta.strip_suffix("meta").unwrap_or(meta))
    }

    /// Returns the keys of version 1 that version 2 reads. All namespaces shared them.
    pub(super) fn former() -> [String; 5] {
        ["meta", "sessions", "lives", "data", "names"].map(|name| key("", name))
    }
}

fn key(namespace: &str, name: &str) -> String {
    match namespace {
        "" => format!("{{distlock}}:{name}"),
        _ => format!("{{distlock:{namespace}}}:{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_hashes_differ() {
        let mut hashes: Vec<_> = ALL.iter().map(|script| &script.made().hash).collect();
        hashes.sort();
        hashes.dedup();
        assert_eq!(hashes.len(), ALL.len());
        assert!(ALL.iter().all(|script| script.made().code.starts_with("#!lua")));
    }

    #[test]
    fn keys_are_of_one_slot() {
        let keys = Keys::of("/app/locks");
        assert!(keys.all().iter().all(|key| key.starts_with("{distlock:/app/locks}:")));
        assert_eq!(keys.queue(), "{distlock:/app/locks}:queue");
        assert_eq!(keys.channel(31), "{distlock:/app/locks}:1f");
        assert_eq!(Keys::former()[0], "{distlock}:meta");
    }
}
