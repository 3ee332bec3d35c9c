//! The trace of a run, for the model: what happened to the keys of the mutexes, and what the
//! clients did. `tests/model/src/queue/replay/trace.rs` describes its lines.

use std::{collections::HashMap, fs::OpenOptions, io::Write, path::Path};

use distlock_testkit::Result;

use crate::{
    args::Run,
    event::{Event, Outcome, Record},
    manner::Manner,
    primitive::place_of,
};

/// Appends the trace of a run to a file.
pub(crate) fn append(file: &Path, run: &Run, records: &[Record]) -> Result<()> {
    let title = format!("{} seed {}", run.backend, run.seed);
    let text = format!("# {title}\n{}\n", text(records));
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    Ok(file.write_all(text.as_bytes())?)
}

/// A line, with the latest time of its event.
type Line = (u64, String);

fn text(records: &[Record]) -> String {
    let mut lines = changes(records);
    let mut calls = HashMap::new();
    lines.extend(records.iter().flat_map(|record| of_client(record, &mut calls)));
    // Stable: the changes are in the store's order.
    lines.sort_by_key(|(at, _)| *at);
    lines.into_iter().map(|(_, line)| line + "\n").collect()
}

/// Returns the lock and the name of a key; `None` for keys that are no entry of a mutex.
fn place(key: &str) -> Option<(&str, &str)> {
    let (dir, name) = key.rsplit_once('/')?;
    let (_, lock) = dir.rsplit_once('/')?;
    (!lock.contains('!') && !lock.is_empty()).then_some((lock, name))
}

fn is_mutex(lock: &str) -> bool {
    !lock.is_empty() && !lock.contains('!')
}

/// Returns the number of a key: its token, and the place of its mutex among all. A transaction may
/// create keys with the same token for several mutexes.
fn number(lock: &str, token: u64) -> u64 {
    token * 100 + place_of(lock)
}

/// Returns the changes of the queues, in the store's order.
fn changes(records: &[Record]) -> Vec<Line> {
    let times = Times::of(records);
    let mut changes: Vec<_> = records
        .iter()
        .filter_map(|record| match record.event {
            Event::KeyPut { revision, .. } | Event::KeyGone { revision, .. } => {
                Some((revision, record))
            }
            _ => None,
        })
        .collect();
    changes.sort_by_key(|(revision, _)| *revision);
    // A change was recorded after all earlier ones.
    let mut latest = u64::MAX;
    let mut until: Vec<_> = changes
        .iter()
        .rev()
        .map(|(revision, record)| {
            latest = latest.min(record.at).min(times.to(*revision));
            latest
        })
        .collect();
    until.reverse();
    let (mut lines, mut there) = (Vec::new(), HashMap::new());
    for ((revision, record), to) in changes.into_iter().zip(until) {
        if let Some(line) = change(&record.event, &mut there) {
            lines.push((to, format!("@{}-{to} {line}", times.from(revision).min(to))));
        }
    }
    lines
}

/// Returns the line of a change. `there`: the numbers of the entries, by key.
fn change(event: &Event, there: &mut HashMap<String, u64>) -> Option<String> {
    match event {
        // Without its lease, a key is no entry.
        Event::KeyPut { key, lease: 0, .. } | Event::KeyGone { key, .. } => {
            there.remove(key).map(|number| format!("gone {number}"))
        }
        Event::KeyPut { key, created, lease, value, .. } => {
            let (lock, name) = place(key)?;
            if there.contains_key(key) {
                return None;
            }
            let number = number(lock, *created);
            there.insert(key.clone(), number);
            // The owner, and the time of creation.
            let owner = value.rsplit_once('\n').map_or("", |(owner, _)| owner);
            let client = if name.starts_with('~') { owner } else { STRANGERS };
            Some(format!("put {lock} {number} {lease:x} {client} {name}"))
        }
        _ => None,
    }
}

/// The recorder of other libraries' waiters.
const STRANGERS: &str = "strangers";

/// Returns what a client did. A call for several mutexes counts as a call for each of them.
/// `calls`: the calls that have not returned, with their mutexes.
fn of_client(
    Record { at, by, event }: &Record,
    calls: &mut HashMap<(String, u64), String>,
) -> Vec<Line> {
    let id = |call: &u64, lock: &str| format!("{by}:{call}:{lock}");
    let each = |locks: &str, line: &dyn Fn(&str) -> String| {
        locks.split('+').map(|lock| (*at, line(lock))).collect()
    };
    let line = match event {
        Event::Called { call, lock, manner, .. } if is_mutex(lock) && acquires(*manner) => {
            calls.insert((by.clone(), *call), lock.clone());
            return each(lock, &|lock| format!("@{at} call {} {by} {lock}", id(call, lock)));
        }
        Event::Returned { call, outcome } => {
            let locks = calls.remove(&(by.clone(), *call));
            let nothing = locks.filter(|_| *outcome != Outcome::Done);
            return nothing.map_or_else(Vec::new, |locks| {
                each(&locks, &|lock| format!("@{at} returned {}", id(call, lock)))
            });
        }
        Event::Granted { call, lock, token, key, until, .. } if is_mutex(lock) => {
            let Some((_, name)) = place(key) else { return Vec::new() };
            format!("@{at} granted {} {} {name} {until}", id(call, lock), number(lock, *token))
        }
        Event::Extended { lock, token, until } if is_mutex(lock) => {
            format!("@{at} until {} {until}", number(lock, *token))
        }
        Event::Lost { lock, token, reason } if is_mutex(lock) => {
            let reason = if reason == "Evicted" { "evicted" } else { "session" };
            format!("@{at} lost {} {reason}", number(lock, *token))
        }
        Event::Releasing { lock, token, .. } if is_mutex(lock) => {
            format!("@{at} release {} {by}", number(lock, *token))
        }
        Event::Released { lock, token, outcome: Outcome::Done } if is_mutex(lock) => {
            format!("@{at} released {}", number(lock, *token))
        }
        Event::Exited { worker, .. } => format!("@{at} ended {worker}"),
        Event::KeyDeleted { key, since } => match place(key) {
            Some((_, name)) => format!("@{since}-{at} evict {name}"),
            None => return Vec::new(),
        },
        Event::LeaseSeen { lease, since, alive: true } => format!("@{since}-{at} alive {lease:x}"),
        _ => return Vec::new(),
    };
    vec![(*at, line)]
}

fn acquires(manner: Manner) -> bool {
    matches!(
        manner,
        Manner::Lock | Manner::TryLock | Manner::LockTimeout | Manner::Dropped | Manner::Foreign
    )
}

/// The reads of the store's revision, in their order.
struct Times(Vec<(u64, u64, u64)>);

impl Times {
    fn of(records: &[Record]) -> Self {
        let mut probes: Vec<_> = records
            .iter()
            .filter_map(|record| match record.event {
                Event::Probed { since, revision } => Some((revision, since, record.at)),
                _ => None,
            })
            .collect();
        probes.sort_unstable();
        Self(probes)
    }

    /// Returns the time before which this revision did not exist.
    fn from(&self, revision: u64) -> u64 {
        let before = self.0.partition_point(|(seen, ..)| *seen < revision);
        before.checked_sub(1).map_or(0, |last| self.0[last].1)
    }

    /// Returns the time at which this revision existed.
    fn to(&self, revision: u64) -> u64 {
        let before = self.0.partition_point(|(seen, ..)| *seen < revision);
        self.0.get(before).map_or(u64::MAX, |(.., at)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitive::Mode;

    fn recorded(at: u64, by: &str, event: Event) -> Record {
        Record { at, by: by.into(), event }
    }

    fn put(revision: u64, created: u64, lease: i64, key: &str) -> Event {
        let value = "worker0.0\n1790000000000".into();
        Event::KeyPut { key: key.into(), revision, created, lease, value }
    }

    /// The time of a change is between the reads around it, and the store's order is kept.
    #[test]
    fn records_become_lines_in_the_stores_order() {
        let (key, lock) = ("/ns/red/~a-1", "red".to_owned());
        let called = |lock: &str| Event::Called {
            call: 3,
            wish: 0,
            lock: lock.into(),
            manner: Manner::Lock,
            limit: None,
        };
        let (call, token, mode) = (3, 7, Mode::Exclusive);
        let granted = |lock, key: &str| {
            let key = key.to_owned();
            Event::Granted { call, lock, token, key, until: 900, mode }
        };
        let records = [
            recorded(5, "observer", Event::Probed { since: 1, revision: 6 }),
            recorded(10, "worker0.0", called("red+blue")),
            recorded(11, "worker0.0", called("red!rw")),
            recorded(12, "observer", put(7, 7, 10, key)),
            recorded(13, "observer", put(8, 8, 0, "/ns/red/junk")),
            recorded(13, "observer", put(9, 9, 10, "/ns/red!/tail")),
            recorded(20, "observer", Event::Probed { since: 15, revision: 9 }),
            recorded(21, "worker0.0", granted(lock, key)),
            recorded(22, "worker0.0", granted("red!rw".into(), "/ns/red!rw/~a-1.r")),
            // An operator writes over the key without its lease.
            recorded(30, "observer", put(10, 7, 0, key)),
            recorded(31, "coordinator", Event::KeyDeleted { key: key.into(), since: 24 }),
            recorded(32, "observer", Event::KeyGone { key: key.into(), revision: 11, lease: 0 }),
        ];
        let lines = [
            "@10 call worker0.0:3:red worker0.0 red",
            "@10 call worker0.0:3:blue worker0.0 blue",
            "@1-12 put red 700 a worker0.0 ~a-1",
            "@21 granted worker0.0:3:red 700 ~a-1 900",
            "@15-30 gone 700",
            "@24-31 evict ~a-1",
        ];
        let mut wanted = lines.join("\n");
        wanted.push('\n');
        assert_eq!(text(&records), wanted);
    }
}
