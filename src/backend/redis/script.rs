//! The scripts that the server runs, one a call: each is a transaction.

use std::sync::OnceLock;

use redis::Cmd;

/// One of them. The server knows it by its hash, once it has run it.
#[derive(Debug)]
pub(super) struct Script {
    /// A server that is full runs it, too.
    frees: bool,
    source: &'static str,
    made: OnceLock<Made>,
}

#[derive(Debug)]
struct Made {
    code: String,
    hash: String,
}

/// What all of them begin with.
const LIBRARY: &str =
    concat!(include_str!("scripts/lib.lua"), "\n", include_str!("scripts/gates.lua"));

/// How many keys [`Keys`] has.
const KEYS: usize = 10;

macro_rules! scripts {
    ($($name:ident: $frees:literal, $file:literal;)*) => {
        $(pub(super) static $name: Script = Script {
            frees: $frees,
            source: include_str!(concat!("scripts/", $file, ".lua")),
            made: OnceLock::new(),
        };)*

        /// All that there are.
        #[cfg(test)]
        const ALL: &[&Script] = &[$(&$name),*];
    };
}

scripts! {
    CLOSE: true, "close";
    COMMIT: false, "commit";
    CONFIRM: true, "confirm";
    EXPIRIES: true, "expiries";
    GATE: true, "gate";
    HELLO: true, "hello";
    JOIN: false, "join";
    KEEP_ALIVE: true, "keep_alive";
    KEPT: true, "kept";
    LEAVE: true, "leave";
    LIST: true, "list";
    OPEN: false, "open";
    OWN: true, "own";
    PRESENT: true, "present";
    QUEUES: true, "queues";
    READ: true, "read";
    RELABEL: true, "relabel";
    REWRITE: false, "rewrite";
    STANDING: true, "standing";
    UNWATCH: true, "unwatch";
    WATCH: true, "watch";
}

impl Script {
    fn made(&self) -> &Made {
        self.made.get_or_init(|| {
            let flags = if self.frees { " flags=allow-oom" } else { "" };
            let code = format!("#!lua{flags}\n{LIBRARY}\n{}", self.source);
            Made { hash: redis::Script::new(&code).get_hash().to_owned(), code }
        })
    }

    /// To be sent first.
    pub(super) fn by_hash(&self, keys: &Keys, arguments: &[Vec<u8>]) -> Cmd {
        call("EVALSHA", &self.made().hash, keys, arguments)
    }

    /// To be sent if the server does not know the hash.
    pub(super) fn whole(&self, keys: &Keys, arguments: &[Vec<u8>]) -> Cmd {
        call("EVAL", &self.made().code, keys, arguments)
    }
}

fn call(command: &str, script: &str, keys: &Keys, arguments: &[Vec<u8>]) -> Cmd {
    let mut call = redis::cmd(command);
    call.arg(script).arg(KEYS).arg(&keys.0[..]).arg(arguments);
    call
}

/// What is in the first braces of all keys, by which a cluster chooses their slot.
const TAG: &str = "{distlock}:";

/// The keys that all of it is kept in: of one slot, as a script may touch no others.
#[derive(Clone, Debug)]
pub(super) struct Keys([String; KEYS]);

impl Keys {
    pub(super) fn new() -> Self {
        let names = [
            "meta", "sessions", "lives", "queue", "entries", "values", "own", "watches", "data",
            "names",
        ];
        Self(names.map(|name| format!("{TAG}{name}")))
    }

    pub(super) fn meta(&self) -> &str {
        &self.0[0]
    }

    /// Who stands in which queue.
    pub(super) fn queue(&self) -> &str {
        &self.0[3]
    }

    /// Where a session is told of what it waits for.
    pub(super) fn channel(session: i64) -> String {
        format!("{TAG}{session:x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_script_is_another_one() {
        let mut hashes: Vec<_> = ALL.iter().map(|script| &script.made().hash).collect();
        hashes.sort();
        hashes.dedup();
        assert_eq!(hashes.len(), ALL.len());
        assert!(ALL.iter().all(|script| script.made().code.starts_with("#!lua")));
        // As many as the library takes.
        let taken = (1..=KEYS).all(|key| LIBRARY.contains(&format!("= KEYS[{key}]")));
        assert!(taken && !LIBRARY.contains(&format!("KEYS[{}]", KEYS + 1)));
    }

    #[test]
    fn keys_are_of_one_slot() {
        let keys = Keys::new();
        assert!(keys.0.iter().all(|key| key.starts_with("{distlock}:")));
        assert_eq!(keys.queue(), "{distlock}:queue");
        assert_eq!(Keys::channel(31), "{distlock}:1f");
    }
}
