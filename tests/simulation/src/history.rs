//! The events of a history in short form, and which of all possible events occurred.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    sync::Arc,
    time::Duration,
};

use crate::server::Contract;

impl Fate {
    pub(crate) const ALL: [Self; 10] = [
        Self::Answered,
        Self::Slow,
        Self::RequestLost,
        Self::ReplyLost,
        Self::AppliedLate,
        Self::RefusedBefore,
        Self::FailedAfter,
        Self::Disconnected,
        Self::Denied,
        Self::Fatal,
    ];
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    Answered,
    Slow,
    RequestLost,
    ReplyLost,
    AppliedLate,
    RefusedBefore,
    FailedAfter,
    Disconnected,
    Denied,
    Fatal,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Asked(&'static str, Fate),
    /// With the revision; 0 means that the session had ended.
    Served(&'static str, u64),
    /// The arguments of a script that a Redis server has run.
    Script(Arc<str>),
    Notified(bool),
    EventLost,
    Calls(Arc<str>),
    Returns(Arc<str>),
    Grants(Arc<str>, u64),
    Releases(Arc<str>),
    Dropped,
    Abandoned,
    Neglected,
    Stopped,
    Blocked,
    Killed,
    Cut,
    Connected(u64),
    Disconnected,
    Expired(u64),
    Operator(&'static str, Arc<str>),
    Healed,
}

#[derive(Debug, Default)]
pub(crate) struct History {
    verbose: bool,
    pub(crate) lines: Vec<(Duration, usize, What)>,
    hash: u64,
    pub(crate) calls: u64,
    pub(crate) coverage: Coverage,
    pub(crate) violations: Vec<String>,
    /// Guarded writes that were refused because the lock was lost.
    pub(crate) unwritten: Vec<String>,
    /// A number of permits was set.
    pub(crate) permits_set: bool,
    pub(crate) trace: Option<crate::trace::Trace>,
    /// Queues from which an operator has deleted a key.
    pub(crate) operated: BTreeSet<String>,
}

/// How often each expected event occurred.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coverage {
    pub(crate) counts: BTreeMap<String, u64>,
    pub(crate) fates: BTreeMap<(&'static str, Fate), u64>,
}

/// The kinds of requests to the store.
const REQUESTS: [&str; 13] = [
    "keep_alive",
    "enqueue",
    "enqueue_all",
    "standing",
    "present",
    "own_keys",
    "watch",
    "leave",
    "close",
    "list",
    "rewrite",
    "relabel",
    "commit",
];

/// The events that must occur, besides every fate of every request.
const EVENTS: [&str; 34] = [
    "error SessionLost",
    "error Evicted",
    "error Unavailable",
    "error Denied",
    "error Backend",
    "error Closed",
    "error InvalidArgument",
    "unlock Ok",
    "unlock Lost",
    "unlock ReleaseUnconfirmed",
    "unlock Denied",
    "put Ok",
    "put Lost",
    "put WriteUnconfirmed",
    "lost DeadlinePassed",
    "lost SessionExpired",
    "lost Evicted",
    "lost ClientClosed",
    "notified DeadlinePassed",
    "notified Evicted",
    "notified ClientClosed",
    "waiting DeadlinePassed",
    "waiting SessionExpired",
    "downgrade Ok",
    "downgrade Lost",
    "proclaim Ok",
    "proclaim Lost",
    "release requested",
    "concluded There own true seen true first true: Waits",
    "concluded Gone own true seen true first true: First",
    "concluded Gone own false seen true first true: Evicted",
    "concluded inherited first true: First",
    "concluded withdrawn first true: Behind",
    "concluded hint first false: Unknown",
];

/// Only the contract of ZooKeeper has these: a holder's release leaves a marker, and the reply to a
/// join names the predecessor by its number before it was seen.
const OF_ZOOKEEPER: [&str; 2] = [
    "concluded Released own true seen true first false: First",
    "concluded Gone own true seen false first true: Unknown",
];

impl Coverage {
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for ((call, fate), count) in &self.fates {
            let _ = writeln!(text, "{count:>10} {call}: {fate:?}");
        }
        for (what, count) in &self.counts {
            let _ = writeln!(text, "{count:>10} {what}");
        }
        text
    }

    /// Returns what should have occurred in histories of these contracts, but never did.
    pub(crate) fn missing(&self, contracts: &[Contract]) -> Vec<String> {
        let has = |contract| contracts.contains(&contract);
        let fates = Fate::ALL.iter().filter(|fate| match fate {
            Fate::AppliedLate => has(Contract::Etcd),
            Fate::Disconnected => has(Contract::ZooKeeper),
            _ => true,
        });
        let fates = fates.flat_map(|fate| REQUESTS.iter().map(move |call| (*call, *fate)));
        let fates = fates.filter(|fate| !self.fates.contains_key(fate));
        let fates = fates.map(|(call, fate)| format!("{call}: {fate:?}"));
        let own = OF_ZOOKEEPER.iter().filter(|_| has(Contract::ZooKeeper));
        let events = EVENTS.iter().chain(own);
        let events = events.filter(|event| !self.counts.contains_key(**event));
        fates.chain(events.map(ToString::to_string)).collect()
    }

    pub(crate) fn count(&mut self, what: impl Into<String>) {
        *self.counts.entry(what.into()).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (what, count) in &other.counts {
            match self.counts.get_mut(what) {
                Some(known) => *known += count,
                None => drop(self.counts.insert(what.clone(), *count)),
            }
        }
        for (fate, count) in &other.fates {
            *self.fates.entry(*fate).or_default() += count;
        }
    }
}

impl History {
    pub(crate) fn new(verbose: bool) -> Self {
        Self { verbose, hash: 0xcbf2_9ce4_8422_2325, ..Self::default() }
    }

    pub(crate) fn note(&mut self, at: Duration, who: usize, what: What) {
        self.mix(&at.as_nanos().to_be_bytes());
        self.mix(&who.to_be_bytes());
        match &what {
            What::Asked(name, fate) => {
                self.mix(name.as_bytes());
                self.mix(&[*fate as u8]);
            }
            What::Served(name, revision) => {
                self.mix(name.as_bytes());
                self.mix(&revision.to_be_bytes());
            }
            What::Calls(what) | What::Returns(what) | What::Releases(what) => {
                self.mix(what.as_bytes());
            }
            What::Grants(what, token) => {
                self.mix(what.as_bytes());
                self.mix(&token.to_be_bytes());
            }
            What::Operator(deed, key) => {
                self.mix(deed.as_bytes());
                self.mix(key.as_bytes());
            }
            What::Connected(number) | What::Expired(number) => self.mix(&number.to_be_bytes()),
            _ => self.mix(&[1]),
        }
        if let What::Asked(name, fate) = &what {
            *self.coverage.fates.entry((name, *fate)).or_default() += 1;
        }
        if self.verbose {
            self.lines.push((at, who, what));
        }
    }

    /// FNV-1a, which is the same on every machine.
    fn mix(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn violated(&mut self, what: String) {
        // Some violations are found again by every check.
        if !self.violations.contains(&what) {
            self.violations.push(what);
        }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Keepalives are most of the requests, and rarely of interest.
        let idle = |what: &What| {
            matches!(
                what,
                What::Asked("keep_alive", Fate::Answered) | What::Served("keep_alive", _)
            )
        };
        for (at, who, what) in self.lines.iter().filter(|(.., what)| !idle(what)) {
            let who = if *who == usize::MAX { "world".to_owned() } else { format!("client{who}") };
            let _ = writeln!(text, "{:>12.6} {who:>8} {what:?}", at.as_secs_f64());
        }
        text
    }
}
