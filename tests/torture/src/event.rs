//! The records of a run's history.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use distlock_testkit::{Result, clock::uptime};
use serde::{Deserialize, Serialize};

use crate::{args::Run, manner::Manner, primitive::Mode};

/// The guarantees that the store returns: see `distlock::Durability`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Promise {
    pub(crate) exclusive: bool,
    pub(crate) failover: String,
    pub(crate) reasons: Vec<String>,
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    /// The lock is held or released.
    Done,
    /// `Ok(None)`, or a dropped future.
    Nothing,
    /// A retryable error, or the loss of a lock.
    Refused(String),
    /// An unexpected error.
    Failed(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Event {
    /// The run starts.
    Began { run: Run },
    /// The store returned its guarantees.
    Promised(Promise),

    // Recorded by the workers.
    /// A call, mostly to acquire a lock. A task that waits repeats it with the same `wish` until it
    /// is granted.
    Called { call: u64, wish: u64, lock: String, manner: Manner, limit: Option<u64> },
    /// The call returned.
    Returned { call: u64, outcome: Outcome },
    /// The call returned a guard that is valid until `until` (0: it never was).
    Granted { call: u64, lock: String, token: u64, key: String, until: u64, mode: Mode },
    /// The guard's deadline has moved.
    Extended { lock: String, token: u64, until: u64 },
    /// A writer is about to be downgraded.
    Downgrading { lock: String, token: u64 },
    /// The value of the guarded write that was just called.
    Writing { call: u64, lock: String, token: u64, value: u64 },
    /// The guard was invalid and is valid again.
    Revived { lock: String, token: u64 },
    /// `lost()` resolved.
    Lost { lock: String, token: u64, reason: String },
    /// The guard is about to be unlocked or dropped.
    Releasing { lock: String, token: u64, limit: Option<u64> },
    /// The guard was unlocked or dropped.
    Released { lock: String, token: u64, outcome: Outcome },
    /// The worker's runtime is about to be blocked for this long.
    Blocking { micros: u64 },
    /// The runtime is no longer blocked.
    Unblocked,
    /// A thread of the worker panicked.
    Panicked { message: String },
    /// The library logged an event.
    Logged { level: String, message: String, fields: BTreeMap<String, String> },
    /// The library recorded a metric: a histogram value, or the change of a counter or gauge.
    Measured { metric: String, labels: BTreeMap<String, String>, value: f64 },

    // Recorded by the register.
    /// A read of the register's value, with a token for the fenced register.
    Read { lock: String, token: Option<u64>, value: u64, accepted: bool },
    /// A write of `value` by a worker that had read `after` before.
    Wrote { lock: String, token: Option<u64>, value: u64, after: u64, accepted: bool },

    /// The store's register of the guarded writes, as read for the holder of this token (0: no
    /// holder). It has the token of its `writer`, its value, how often it was written or seen to
    /// change, and when the read started.
    Saw { lock: String, token: u64, writer: u64, value: u64, version: u64, since: u64 },

    // Recorded by the observer of a trace.
    /// A key was written. `created` is the revision that created it, and `lease` may be 0.
    KeyPut { key: String, revision: u64, created: u64, lease: i64, value: String },
    /// A key with this lease was deleted.
    KeyGone { key: String, revision: u64, lease: i64 },
    /// The store was at this revision at some time since `since`.
    Probed { since: u64, revision: u64 },
    /// Whether a lease existed at some time since `since`.
    LeaseSeen { lease: i64, since: u64, alive: bool },

    // Recorded by the coordinator.
    /// A worker started.
    Spawned { worker: String },
    /// A worker ended: it was killed, or exited with or without success.
    Exited { worker: String, killed: bool, clean: bool },
    /// A worker was stopped.
    Stopped { worker: String },
    /// A worker resumed.
    Continued { worker: String },
    /// A fault strikes a worker, servers or the queues.
    FaultBegan { fault: u64, kind: String, target: String },
    /// The fault ended.
    FaultEnded { fault: u64 },
    /// No fault is left and all servers serve. From now on all waiters must be granted in time.
    Healed,
    /// The next faults may start.
    Resumed,
    /// A new key was seen in the store, with the token of the grant that it belongs to. The token
    /// is 0 if only the key itself identifies the grant.
    KeySeen { key: String, created: u64 },
    /// The operator deleted a key, or detached its session, not before `since` and not after the
    /// record's time.
    KeyDeleted { key: String, since: u64 },
    /// The leftovers in the store after the last client has closed.
    Left { what: Vec<String> },
}

/// A line of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) at: u64,
    /// The process that recorded it.
    pub(crate) by: String,
    #[serde(flatten)]
    pub(crate) event: Event,
}

/// Writes a process's part of the history.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    by: String,
    file: Arc<Mutex<File>>,
}

impl Journal {
    pub(crate) fn open(folder: &Path, by: &str) -> io::Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(folder.join(format!("{by}.jsonl")))?;
        Ok(Self { by: by.to_owned(), file: Arc::new(Mutex::new(file)) })
    }

    pub(crate) fn record(&self, event: Event) {
        self.record_at(uptime(), event);
    }

    /// Writes each record at once, without a buffer, so that it survives the end of the process.
    pub(crate) fn record_at(&self, at: u64, event: Event) {
        let record = Record { at, by: self.by.clone(), event };
        let mut line = serde_json::to_vec(&record).expect("records can be serialized");
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line).expect("the history can be written");
    }
}

/// Reads a history, in the order of time.
pub(crate) fn read(folder: &Path) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    for path in files {
        let text = std::fs::read_to_string(&path)?;
        let mut lines = text.split_inclusive('\n').peekable();
        while let Some(line) = lines.next() {
            match serde_json::from_str::<Record>(line) {
                Ok(record) => records.push(record),
                // A killed process may have left a partial line.
                Err(_) if lines.peek().is_none() && !line.ends_with('\n') => {}
                Err(error) => return Err(format!("{}: {error}: {line}", path.display()).into()),
            }
        }
    }
    records.sort_by_key(|record| record.at);
    Ok(records)
}
