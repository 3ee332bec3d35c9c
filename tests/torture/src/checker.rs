//! The checker: reads a history and reports violations of the invariants.
//!
//! Every check errs on the safe side. A window of validity starts when the call has returned, and
//! ends at the latest time that the guard itself has named. So every reported violation is real.

mod guarded;
mod registers;
mod telemetry;
#[cfg(test)]
mod tests;
mod upgrade;
mod waiting;
mod windows;

use std::collections::HashMap;

use distlock_testkit::{clock::micros, store::Store};

use crate::{
    args::Run,
    event::{Event, Outcome, Record},
    fault::{Deed, Kind, Trouble},
    manner::Manner,
    primitive::Mode,
    report::{Invariant, Report},
};

/// How much later than its limit a call may return on a busy machine.
const SLACK: u64 = 1_500_000;

const NEVER: u64 = u64::MAX;

/// With this many grants, something that concerns most of them has been seen.
const ENOUGH: usize = 100;

#[derive(Debug)]
struct Call {
    by: String,
    at: u64,
    wish: u64,
    lock: String,
    manner: Manner,
    limit: Option<u64>,
    returned: Option<(u64, Outcome)>,
}

#[derive(Debug)]
struct Grant {
    by: String,
    lock: String,
    token: u64,
    key: String,
    mode: Mode,
    /// Since when a writer may have been a reader.
    downgraded: u64,
    /// The start of the call that was granted.
    called: u64,
    at: u64,
    /// The latest deadline that the guard has reported.
    until: u64,
    releasing: u64,
    /// The time limit of `unlock()`.
    release_limit: Option<u64>,
    released: Option<u64>,
    lost: u64,
    /// The deletions of its key by the operator: the earliest time of each, and the latest time at
    /// which its holder notices. The latter is shortly afterwards, or when the faults of its worker
    /// and of the servers end.
    deleted: Vec<(u64, u64)>,
}

impl Grant {
    /// Returns `true` if its key was deleted before the call returned. Then the lock may have been
    /// granted to others already.
    fn came_late(&self) -> bool {
        self.deleted.iter().any(|(since, _)| *since <= self.at)
    }

    /// Returns when the holder noticed the loss, unless it had released before.
    fn knew(&self) -> Option<u64> {
        let knew = self.lost.min(self.until);
        (knew < self.releasing).then_some(knew)
    }
}

/// A worker's process.
#[derive(Debug, Default)]
struct Life {
    ended: Option<u64>,
    /// The times at which it could not run: stopped, or with a blocked runtime.
    pauses: Vec<(u64, u64)>,
}

#[derive(Debug, Default)]
struct History {
    calls: Vec<Call>,
    grants: Vec<Grant>,
    /// The index of a worker's grant of a lock, by its token.
    guards: HashMap<(String, String, u64), usize>,
    lives: HashMap<String, Life>,
    heals: Vec<u64>,
    /// When each key was first seen, by its name and time of creation.
    keys: HashMap<(String, u64), u64>,
    /// By entry: see [`place`].
    deleted: HashMap<String, Vec<(u64, u64)>>,
    faults: HashMap<u64, Fault>,
    /// The store has no order, and guarantees no waiter a turn.
    unordered: bool,
    /// The store counts the writes to a key of data.
    counts_writes: bool,
    /// The store has lost confirmed data, which the run has removed.
    forgot: bool,
    /// How long after the operator deleted its key a holder may still trust its lock.
    notice: u64,
}

/// A fault that delays notifications to one worker or to all.
#[derive(Debug)]
struct Fault {
    target: String,
    from: u64,
    to: u64,
    /// Only one packet was lost. The client that it was for finds out by a recheck.
    drops: bool,
    /// The connection stays unusable after the fault until the client gives it up, after at most a
    /// TTL: late requests block later ones.
    lingers: bool,
    /// The disk or memory was full.
    fills: bool,
}

impl History {
    fn grant(&mut self, by: String, lock: String, token: u64) -> Option<&mut Grant> {
        self.guards.get(&(by, lock, token)).map(|index| &mut self.grants[*index])
    }

    /// Returns `true` if the store may have reported shortly before that it is full, which is not
    /// retryable. A process that was stopped records the error when it resumes.
    fn was_full(&self, by: &str, at: u64) -> bool {
        let pauses = self.lives.get(by).map(|life| life.pauses.as_slice()).unwrap_or_default();
        // The process may run a moment before its resumption is recorded.
        let just_over =
            pauses.iter().rfind(|(from, to)| *from <= at && at < to.saturating_add(SLACK));
        let since = just_over.map_or(at, |(from, _)| *from);
        self.faults.values().any(|fault| fault.fills && since < fault.to.saturating_add(SLACK))
    }

    /// Returns when a worker notices an event at time `done` at the latest. A worker that was not
    /// notified rechecks after 1.25 recheck intervals.
    fn notice_due(&self, worker: &str, done: u64, recheck: u64) -> u64 {
        let strikes = |fault: &&Fault| {
            fault.target == worker || SERVERS.iter().any(|name| fault.target.starts_with(name))
        };
        let mut faults: Vec<_> = self.faults.values().filter(strikes).collect();
        faults.sort_by_key(|fault| fault.from);
        let last = |end: u64, fault: &Fault| match fault.from <= end.saturating_add(self.notice) {
            true if fault.drops => end.max(fault.to).max(done.saturating_add(recheck / 4 * 5)),
            true if fault.lingers => end.max(fault.to.saturating_add(recheck)),
            true => end.max(fault.to),
            false => end,
        };
        faults.into_iter().fold(done, last)
    }
}

/// Returns how long a holder takes to notice that its key was deleted. MySQL does not notify
/// clients, and neither does a pooler: there holders recheck every 0.8 s.
fn notice(store: Store) -> u64 {
    match store {
        Store::Mysql | Store::Galera | Store::Pgbouncer => 1_300_000,
        _ => 500_000,
    }
}

/// The prefixes of the servers' names.
const SERVERS: [&str; 10] = [
    "etcd",
    "zk",
    "postgres",
    "pgbouncer",
    "mysql",
    "galera",
    "sqlite",
    "redis",
    "valkey",
    "redlock",
];

pub(crate) fn check(run: &Run, records: &[Record]) -> Report {
    let mut report = Report::new(run);
    let history = digest(run, records, &mut report);
    registers::check(records, &mut report);
    report.calls = history.calls.len();
    report.grants = history.grants.len();
    if history.grants.is_empty() {
        report.violated(Invariant::Run, "no call was granted");
    }
    if let Some(promise) = &report.durability
        && run.backend.is_exclusive()
        && !promise.exclusive
    {
        // Otherwise two holders would be no violation.
        let what = format!("locks are reported as not exclusive: {}", promise.reasons.join("; "));
        report.violated(Invariant::Run, what);
    }
    windows::check(&history, &mut report);
    guarded::check(records, &history, &mut report);
    if !history.unordered {
        check_order(&history, &mut report);
    }
    waiting::check(&history, micros(run.bound()), &mut report);
    waiting::check_calls(&history, &mut report);
    report.upgrade = upgrade::summarize(records);
    if run.telemetry {
        telemetry::check(run, records, &mut report);
    }
    report
}

/// Combines the records into a history. Reports violations that a single record shows.
fn digest(run: &Run, records: &[Record], report: &mut Report) -> History {
    let mut history = History {
        notice: notice(run.backend),
        unordered: !run.backend.queues(),
        counts_writes: !run.backend.is_redis(),
        ..History::default()
    };
    let mut calls = HashMap::new();
    let mut left = false;
    for Record { at, by, event } in records {
        let (at, by) = (*at, by.clone());
        match event.clone() {
            Event::Called { call, wish, manner, limit, lock } => {
                calls.insert((by.clone(), call), history.calls.len());
                history.calls.push(Call { by, at, wish, lock, manner, limit, returned: None });
            }
            Event::Returned { call, outcome } => {
                if let Outcome::Failed(error) = &outcome
                    && !history.was_full(&by, at)
                {
                    report.violated(Invariant::Call, format!("{at} {by}: {error}"));
                }
                if let Some(index) = calls.get(&(by, call)) {
                    history.calls[*index].returned = Some((at, outcome));
                }
            }
            Event::Granted { call, lock, token, key, until, mode } => {
                let called =
                    calls.get(&(by.clone(), call)).map_or(at, |index| history.calls[*index].at);
                history.guards.insert((by.clone(), lock.clone(), token), history.grants.len());
                history.grants.push(Grant {
                    by,
                    lock,
                    token,
                    key,
                    mode,
                    downgraded: NEVER,
                    called,
                    at,
                    until,
                    releasing: NEVER,
                    release_limit: None,
                    released: None,
                    lost: NEVER,
                    deleted: Vec::new(),
                });
            }
            Event::Extended { lock, token, until } => {
                if let Some(grant) = history.grant(by, lock, token) {
                    grant.until = grant.until.max(until);
                }
            }
            Event::Downgrading { lock, token } => {
                if let Some(grant) = history.grant(by, lock, token) {
                    grant.downgraded = at;
                }
            }
            Event::Revived { lock, token } => {
                let what = format!("{at} {by}: {lock} {token} was invalid and is valid again");
                report.violated(Invariant::Overlap, what);
            }
            Event::Lost { lock, token, .. } => {
                report.losses += 1;
                if let Some(grant) = history.grant(by, lock, token) {
                    grant.lost = at;
                }
            }
            Event::Releasing { lock, token, limit } => {
                if let Some(grant) = history.grant(by, lock, token) {
                    (grant.releasing, grant.release_limit) = (at, limit);
                }
            }
            Event::Released { lock, token, outcome } => {
                let grant = history.grant(by.clone(), lock.clone(), token);
                let lost = grant.is_some_and(|grant| {
                    grant.released = Some(at);
                    grant.lost != NEVER
                });
                let wrong = match outcome {
                    Outcome::Done if lost => {
                        format!("{lock} {token} was unlocked with Ok after it was lost")
                    }
                    Outcome::Failed(error) if !history.was_full(&by, at) => error,
                    _ => continue,
                };
                report.violated(Invariant::Call, format!("{at} {by}: {wrong}"));
            }
            Event::Blocking { micros } => {
                history.lives.entry(by).or_default().pauses.push((at, at + micros));
            }
            Event::Panicked { message } => {
                report.violated(Invariant::Call, format!("{at} {by}: {message}"))
            }
            Event::Exited { worker, clean, .. } => {
                history.lives.entry(worker.clone()).or_default().ended = Some(at);
                if !clean {
                    report.violated(Invariant::Call, format!("{at} {worker} ended with an error"));
                }
            }
            Event::Stopped { worker } => {
                history.lives.entry(worker).or_default().pauses.push((at, NEVER))
            }
            Event::Continued { worker } => {
                if let Some(pause) = history.lives.entry(worker).or_default().pauses.last_mut() {
                    pause.1 = at;
                }
            }
            Event::FaultBegan { fault, kind, target } => {
                let is = |kinds: [Kind; 2]| kinds.iter().any(|it| it.to_string() == kind);
                let drops = kind == Kind::Drop.to_string();
                let lingers = kind == Kind::LateRequests.to_string();
                let fills = is([Trouble::DiskFull, Trouble::MemoryFull].map(Kind::Database));
                history.forgot |= is([Deed::Wipe, Deed::Rewind].map(Kind::Servers));
                let fault_began = Fault { target, from: at, to: NEVER, drops, lingers, fills };
                history.faults.insert(fault, fault_began);
                *report.faults.entry(kind).or_default() += 1;
                report.faults_total += 1;
            }
            Event::FaultEnded { fault } => {
                if let Some(fault) = history.faults.get_mut(&fault) {
                    fault.to = at;
                }
            }
            Event::Promised(promise) => {
                report.durability.get_or_insert(promise);
            }
            Event::Healed => history.heals.push(at),
            Event::KeySeen { key, created } => {
                history.keys.entry((key, created)).or_insert(at);
            }
            Event::KeyDeleted { key, since } => {
                history.deleted.entry(place(&key)).or_default().push((since, at));
            }
            Event::Left { what } => {
                left = true;
                for orphan in what {
                    report.violated(Invariant::Orphan, orphan);
                }
            }
            _ => {}
        }
    }
    if !left {
        report.violated(Invariant::Run, "the run was not completed");
    }
    let (mut grants, recheck) = (std::mem::take(&mut history.grants), micros(run.longest_ttl()));
    for grant in &mut grants {
        let deleted = history.deleted.get(&place(&grant.key)).into_iter().flatten();
        grant.deleted = deleted
            .map(|(since, done)| {
                let noticed = history.notice_due(&grant.by, *done, recheck);
                (*since, noticed.saturating_add(history.notice))
            })
            .collect();
    }
    history.grants = grants;
    history
}

/// Returns the part of a key that stays when its label changes, as in a downgrade.
fn place(key: &str) -> String {
    let (dir, name) = key.rsplit_once('/').unwrap_or(("", key));
    match name.rsplit_once("-lock-") {
        Some((head, number)) => {
            format!("{dir}/{}-lock-{number}", head.split('-').next().unwrap_or_default())
        }
        None => format!("{dir}/{}", name.split('.').next().unwrap_or_default()),
    }
}

/// I7: an entry that was in the queue before another call started is granted first.
fn check_order(history: &History, report: &mut Report) {
    // A grant that had expired before its call returned left the queue.
    let mut grants: Vec<_> = history.grants.iter().filter(|grant| grant.until > 0).collect();
    grants.sort_by_key(|grant| grant.at);
    // Names of older Curator versions may recur after the directory was removed.
    let unique = |grant: &Grant| !grant.key.contains("/lock-");
    let mut compared = 0;
    for (index, late) in
        grants.iter().enumerate().filter(|(_, late)| !late.came_late() && unique(late))
    {
        let seen = |created| history.keys.get(&(late.key.clone(), created));
        let Some(seen) = seen(late.token).or_else(|| seen(0)) else { continue };
        compared += 1;
        let between = grants[..index].iter().rev().take_while(|early| early.at > *seen);
        for early in between
            .filter(|early| early.lock == late.lock && early.called > *seen && early.at < late.at)
        {
            // Of calls that are granted together, either may return first.
            if early.mode != Mode::Exclusive && late.mode != Mode::Exclusive {
                continue;
            }
            let what = format!(
                "{} {} passed {} in the queue of {}",
                early.at, early.token, late.token, late.lock
            );
            report.violated(Invariant::Order, what);
        }
    }
    if compared == 0 && grants.len() >= ENOUGH {
        let what = format!("the entries of {} grants were never seen in a queue", grants.len());
        report.violated(Invariant::Run, what);
    }
}
