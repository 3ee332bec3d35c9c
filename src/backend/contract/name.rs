//! The names in a store: queues and tickets.

use std::{borrow::Cow, fmt, sync::Arc};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use uuid::Uuid;

use crate::{error::Error, runtime::random};

/// The maximum length of a lock name in bytes, after escaping.
const MAX_NAME: usize = 255;
/// The maximum length of a namespace in bytes.
const MAX_NAMESPACE: usize = 255;
/// The characters that are escaped in a key. `/` is escaped, so the name `a/b` never lies inside
/// the lock `a`.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b':');

/// A queue: the directory of its keys, and the label of the caller's own key. It is cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    name: Arc<str>,
    dir: Arc<str>,
    label: Option<Arc<str>>,
}

/// The label makes no difference.
impl PartialEq for Queue {
    fn eq(&self, other: &Self) -> bool {
        self.dir == other.dir
    }
}

impl Eq for Queue {}

/// The separator between a lock's name and its queue's purpose, so that primitives of the same name
/// are independent. No escaped name has this character.
const PURPOSE: char = '!';
/// The purpose of the queue of candidates.
const ELECTION: &str = "election";
/// The purpose of the queue of a semaphore's waiters.
const GATE: &str = "gate";
/// The purpose of the queue of a semaphore's holders and its first waiter.
const PERMITS: &str = "permits";

impl Queue {
    pub(crate) fn new(namespace: &str, name: &str) -> Result<Self, Error> {
        let invalid = |reason: String| Error::invalid_value("name", name, &reason);
        if name.is_empty() {
            return Err(invalid("must not be empty".into()));
        }
        // A longer name cannot fit, because escaping never shortens it. This check comes first so
        // that a huge name is not copied.
        let escaped = match name {
            _ if name.len() > MAX_NAME => None,
            // ZooKeeper rejects these as path components.
            "." => Some("%2E".to_owned()),
            ".." => Some("%2E%2E".to_owned()),
            _ => Some(utf8_percent_encode(name, ESCAPED).to_string()),
        };
        match escaped {
            Some(escaped) if escaped.len() <= MAX_NAME => Ok(Self {
                name: name.into(),
                dir: [namespace, "/", &escaped].concat().into(),
                label: None,
            }),
            _ => Err(invalid(format!(
                "must be at most {MAX_NAME} bytes once percent-escaped; use a shorter name, or a \
                 hash of the name"
            ))),
        }
    }

    /// Returns the queue of the same name for another purpose, which is a word.
    pub(crate) fn of(&self, purpose: &str) -> Self {
        let dir = format!("{}{PURPOSE}{purpose}", self.dir);
        Self { name: Arc::clone(&self.name), dir: dir.into(), label: None }
    }

    /// Returns the queue of the candidates of an election. A candidate's value may be any bytes,
    /// even bytes that look like the signature of another entry.
    pub(crate) fn election(&self) -> Self {
        self.of(ELECTION)
    }

    /// Returns `true` for the queue of an [`election`](Self::election).
    pub(crate) fn is_election(&self) -> bool {
        self.dir.rsplit_once(PURPOSE).is_some_and(|(_, purpose)| purpose == ELECTION)
    }

    /// Returns the queue of a semaphore's waiters.
    pub(crate) fn gate(&self) -> Self {
        self.of(GATE)
    }

    /// Returns the queue of a semaphore's holders. The first waiter is in both queues.
    pub(crate) fn permits(&self) -> Self {
        self.of(PERMITS)
    }

    /// Returns `true` for a [`gate`](Self::gate).
    pub(crate) fn is_gate(&self) -> bool {
        self.dir.rsplit_once(PURPOSE).is_some_and(|(_, purpose)| purpose == GATE)
    }

    /// Returns the queue that contains the holders of the lock: this one, or for a gate, that of
    /// the permits.
    pub(crate) fn of_holders(&self) -> Self {
        match self.dir.strip_suffix(GATE) {
            Some(lock) if self.is_gate() => {
                let dir = [lock, PERMITS].concat().into();
                Self { name: Arc::clone(&self.name), dir, label: None }
            }
            _ => self.clone(),
        }
    }

    /// Returns the queue where a namespace stores when the work of its locks last began. No client
    /// joins it.
    pub(crate) fn periods(namespace: &str) -> Self {
        let dir = format!("{namespace}/{PURPOSE}began");
        Self { name: "".into(), dir: dir.into(), label: None }
    }

    /// Returns the last part of its directory: the escaped name.
    pub(crate) fn escaped(&self) -> &str {
        self.dir.rsplit_once('/').map_or("", |(_, escaped)| escaped)
    }

    /// Returns the same queue with a label for the caller's key: letters, digits, `@` and `+`, or
    /// empty.
    pub(crate) fn labelled(&self, label: &str) -> Self {
        Self { label: Some(label.into()), ..self.clone() }
    }

    /// Returns the queue with this directory, for use by a store. It does not have the name that
    /// the user gave.
    #[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis"))]
    pub(crate) fn at(dir: &str, label: &str) -> Self {
        let dir: Arc<str> = dir.into();
        Self { name: Arc::clone(&dir), dir, label: Some(label.into()) }
    }

    /// Returns the name of the lock that a directory in a namespace belongs to, if it is one of
    /// ours.
    pub(crate) fn name_in(dir: &str) -> Option<String> {
        let escaped = dir.split(PURPOSE).next()?;
        percent_decode_str(escaped).decode_utf8().ok().map(Cow::into_owned)
    }

    /// Returns the name of the mutex whose queue this directory is; `None` for other primitives.
    #[cfg(feature = "redis")]
    pub(crate) fn mutex_in(dir: &str) -> Option<String> {
        if dir.contains(PURPOSE) { None } else { Self::name_in(dir) }
    }

    /// Returns the label of the caller's key. It is part of the key's name, so that a list of names
    /// includes it.
    pub(crate) fn label(&self) -> &str {
        self.label.as_deref().unwrap_or_default()
    }

    /// Returns the name as the user gave it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns `{namespace}/{escaped name}`, without a slash at the end.
    pub(crate) fn dir(&self) -> &str {
        &self.dir
    }

    pub(crate) fn namespace(&self) -> &str {
        self.dir.rsplit_once('/').map_or("", |(namespace, _)| namespace)
    }

    pub(crate) fn shared_dir(&self) -> Arc<str> {
        Arc::clone(&self.dir)
    }
}

/// Checks a namespace: absolute, no component that is empty, `.` or `..`, and only characters that
/// are safe in a store and on a terminal.
pub(crate) fn check_namespace(namespace: &str) -> Result<(), Error> {
    let invalid =
        |reason: &str| Err(Error::InvalidArgument { argument: "namespace", reason: reason.into() });
    if namespace.len() > MAX_NAMESPACE {
        return invalid("must be at most 255 bytes long");
    }
    let Some(path) = namespace.strip_prefix('/') else {
        return invalid("must start with `/`, as in `/app/locks`");
    };
    if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return invalid("no part may be empty, `.` or `..`");
    }
    if !path.chars().all(|c| c.is_ascii_graphic()) {
        return invalid("must be printable ASCII without spaces");
    }
    if path.split('/').next() == Some("zookeeper") {
        return invalid("`/zookeeper` is reserved for ZooKeeper; choose another namespace");
    }
    // A lock's directory there would be the record of a job of the namespace above.
    if path.split('/').any(|part| part == "!began") {
        return invalid("`!began` is reserved for the records of jobs; choose another namespace");
    }
    Ok(())
}

/// The label of an entry that no client owns. It keeps clients out for a while.
pub(crate) const NOBODY: &str = "nobody";

/// One attempt to acquire a lock: a UUID with 122 random bits, which finds its key again if the
/// reply was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket(Uuid);

impl Ticket {
    pub(crate) fn random() -> Self {
        Self(uuid::Builder::from_random_bytes(random::bits()).into_uuid())
    }

    /// Parses the output of [`Display`](fmt::Display).
    #[allow(dead_code)] // Not every store parses names; the simulation does.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Uuid::try_parse(text).ok().map(Self).filter(|ticket| ticket.to_string() == text)
    }
}

/// Writes a hyphenated UUID, which is Curator's format.
impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(name: &str) -> String {
        Queue::new("/ns", name).unwrap().dir().to_owned()
    }

    #[test]
    fn names_of_different_queues_never_collide() {
        assert_eq!(dir("a"), "/ns/a");
        assert_eq!(dir("a/b"), "/ns/a%2Fb");
        assert_eq!(dir("a%2Fb"), "/ns/a%252Fb");
        assert_eq!(dir(".."), "/ns/%2E%2E");
        assert_eq!(dir("a\0b"), "/ns/a%00b");
        assert_eq!(dir("\u{ffff}"), "/ns/%EF%BF%BF");
    }

    #[test]
    fn holders_of_a_semaphore_are_behind_its_gate() {
        for name in ["a", "gate", "permits"] {
            let lock = Queue::new("/ns!gate", name).unwrap();
            let (gate, permits) = (lock.gate(), lock.permits());
            assert!(gate.is_gate() && gate.of_holders() == permits, "{gate:?}");
            for queue in [lock.of("rw"), lock.election(), permits, lock] {
                assert!(!queue.is_gate() && queue.of_holders() == queue, "{queue:?}");
            }
        }
    }

    #[test]
    fn tickets_parse_as_written() {
        let ticket = Ticket::random();
        let text = ticket.to_string();
        assert_eq!(Ticket::parse(&text), Some(ticket));
        for other in ["", "tail", &text.replace('-', ""), &text.to_uppercase(), &text[1..]] {
            assert_eq!(Ticket::parse(other), None, "{other}");
        }
    }

    #[test]
    fn names_have_limits() {
        assert_eq!(dir(&"x".repeat(255)).len(), 4 + 255);
        for bad in ["", &"x".repeat(256), &"é".repeat(43), &"x".repeat(1 << 16)] {
            let error = Queue::new("/ns", bad).unwrap_err();
            assert!(matches!(error, Error::InvalidArgument { argument: "name", .. }), "{error}");
        }
    }

    #[test]
    fn namespaces_are_checked() {
        for good in ["/distlock", "/app/locks", "/a-b_c.d", "/a/!b"] {
            check_namespace(good).unwrap();
        }
        for bad in [
            "",
            "/",
            "app",
            "/app/",
            "//",
            "/a//b",
            "/a/..",
            "/a b",
            "/\0",
            "/é",
            "/zookeeper",
            "/zookeeper/x",
            "/a/!began",
            "/a/!began/b",
        ] {
            assert!(check_namespace(bad).is_err(), "{bad:?}");
        }
    }
}
