//! What happened: the records that a run's history is made of.

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

/// What the store says that it promises: see `distlock::Durability`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Promise {
    pub(crate) exclusive: bool,
    pub(crate) failover: String,
    pub(crate) reasons: Vec<String>,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    /// The lock is held, the lock is released.
    Done,
    /// `Ok(None)`, or a dropped future.
    Nothing,
    /// An error after which the program may go on.
    Refused(String),
    /// An error that nobody expects.
    Failed(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Event {
    /// The run begins.
    Began { run: Run },
    /// The store was asked.
    Promised(Promise),

    // Told by the workers.
    /// A call, mostly for a lock. A task repeats it with the same `wish` until it is granted, if it
    /// means to wait.
    Called { call: u64, wish: u64, lock: String, manner: Manner, limit: Option<u64> },
    /// It returned.
    Returned { call: u64, outcome: Outcome },
    /// It brought a guard, which says that it is valid until `until` (0: it never was).
    Granted { call: u64, lock: String, token: u64, key: String, until: u64, mode: Mode },
    /// The guard's deadline has moved.
    Extended { lock: String, token: u64, until: u64 },
    /// Its writer is about to become a reader.
    Downgrading { lock: String, token: u64 },
    /// What the guarded write writes that was just called.
    Writing { call: u64, lock: String, token: u64, value: u64 },
    /// The guard was invalid and is valid again.
    Revived { lock: String, token: u64 },
    /// `lost()` resolved.
    Lost { lock: String, token: u64, reason: String },
    /// The guard is about to be unlocked or dropped.
    Releasing { lock: String, token: u64, limit: Option<u64> },
    /// It was unlocked or dropped.
    Released { lock: String, token: u64, outcome: Outcome },
    /// The worker's runtime is about to be blocked for so long.
    Blocking { micros: u64 },
    /// It was.
    Unblocked,
    /// A thread of the worker has panicked.
    Panicked { message: String },
    /// What the library logged.
    Logged { level: String, message: String, fields: BTreeMap<String, String> },
    /// What the library measured: the value of a histogram, or by how much something has changed.
    Measured { metric: String, labels: BTreeMap<String, String>, value: f64 },

    // Told by the register.
    /// Somebody asked for the register's value, with this token if it is the fenced one.
    Read { lock: String, token: Option<u64>, value: u64, accepted: bool },
    /// Somebody wrote `value`, having read `after` before.
    Wrote { lock: String, token: Option<u64>, value: u64, after: u64, accepted: bool },

    /// The store's register of the guarded writes, as somebody saw it who was granted the lock with
    /// this token (0: nobody): the token of its `writer`, its value, how often it had been written,
    /// or seen to be another one, and when the look began.
    Saw { lock: String, token: u64, writer: u64, value: u64, version: u64, since: u64 },

    // Told by the coordinator.
    /// A worker was started.
    Spawned { worker: String },
    /// The worker ended; by a kill of ours, or in good order, or not.
    Exited { worker: String, killed: bool, clean: bool },
    /// It stands still.
    Stopped { worker: String },
    /// It goes on.
    Continued { worker: String },
    /// A fault strikes a worker, servers or the queues.
    FaultBegan { fault: u64, kind: String, target: String },
    /// It has healed.
    FaultEnded { fault: u64 },
    /// No fault is left, and all servers serve: from now on everybody is to be granted in time.
    Healed,
    /// The next faults may come.
    Resumed,
    /// The store has a key that it did not have before, with the token of the one that is granted
    /// the lock by it; 0 if only the key says which that is.
    KeySeen { key: String, created: u64 },
    /// The operator has deleted a key, or has taken its session from it: not before `since`, and by
    /// now it is done.
    KeyDeleted { key: String, since: u64 },
    /// What is left in the store after the last client has gone.
    Left { what: Vec<String> },
}

/// A line of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) at: u64,
    /// Which process tells it.
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

    pub(crate) fn tell(&self, event: Event) {
        self.tell_at(uptime(), event);
    }

    /// One write for each record, and no buffer: what is told stays told, whatever becomes of the
    /// process.
    pub(crate) fn tell_at(&self, at: u64, event: Event) {
        let record = Record { at, by: self.by.clone(), event };
        let mut line = serde_json::to_vec(&record).expect("records can be written as JSON");
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
                // A process that was killed may have left half a line.
                Err(_) if lines.peek().is_none() && !line.ends_with('\n') => {}
                Err(error) => return Err(format!("{}: {error}: {line}", path.display()).into()),
            }
        }
    }
    records.sort_by_key(|record| record.at);
    Ok(records)
}
