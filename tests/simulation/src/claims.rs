//! Checks what callers learn besides the grant itself: names, owners, positions, reasons.

use std::time::Duration;

use crate::{
    error::Error,
    grants::Guard,
    plan::What,
    primitives::{
        guard::LockGuard, leader::Leader, multi_lock::MultiLockGuard, queue_entry::QueueEntry,
        release_request::ReleaseRequest,
    },
    runtime::clock::wall,
    scheduler,
    server::Contract,
};

/// The reason given in a release request.
pub(crate) const REASON: &str = "please";

pub(crate) fn named(number: usize) -> String {
    format!("name-{number}")
}

/// Records a violation if a claim is false.
fn hold(is_true: bool, what: impl FnOnce() -> String) {
    if !is_true {
        scheduler::with(|world| world.history.violated(what()));
    }
}

fn names(what: &What, uncontended: &str) -> Vec<String> {
    match what {
        What::Mutex(name)
        | What::Read(name)
        | What::Write(name)
        | What::Permits(name, ..)
        | What::Election(name)
        | What::RequestRelease(name)
        | What::Queue(name)
        | What::WatchQueue(name)
        | What::Leader(name)
        | What::Observe(name)
        | What::SetPermits(name, _) => vec![named(*name)],
        What::All(names) => names.iter().copied().map(named).collect(),
        What::Uncontended | What::Crowd(_) => vec![uncontended.to_owned()],
    }
}

/// Checks that an error names its lock and the store.
pub(crate) fn check_error(error: &Error, what: &What, uncontended: &str) {
    let names = names(what, uncontended);
    let store = scheduler::with(|world| world.server.contract.store());
    let is_true = match error {
        Error::Evicted { name } | Error::Lost { name, .. } => names.contains(name),
        Error::InvalidArgument { argument: "permits", reason } => {
            names.iter().any(|name| reason.contains(&format!("{name:?}")))
        }
        Error::Unavailable { backend, .. }
        | Error::Denied { backend, .. }
        | Error::Backend { backend, .. }
        | Error::SessionLost { backend, .. } => *backend == store,
        _ => true,
    };
    hold(is_true, || format!("{error:?} of {names:?} on {store}"));
}

/// Checks what a new guard reports about itself.
pub(crate) fn check_guard(guard: &Guard, what: &What, uncontended: &str) {
    let names = names(what, uncontended);
    let each = guard.each();
    let guard_names: Vec<_> = each.iter().map(|(guard, _)| guard.name().to_owned()).collect();
    let mut sorted = names.clone();
    sorted.sort();
    let mut sorted_names = guard_names.clone();
    sorted_names.sort();
    hold(sorted == sorted_names, || format!("{guard_names:?} were granted instead of {names:?}"));
    each.iter().for_each(|(guard, _)| check_time(guard));
    match (guard, what) {
        (Guard::All(all), _) => check_all(all, &names),
        (Guard::Permit(permit, _), What::Permits(_, wanted, _)) => {
            let count = permit.permits();
            hold(count == *wanted, || format!("{count} permits instead of {wanted}"));
        }
        _ => {}
    }
}

fn check_time(guard: &LockGuard) {
    let (ttl, remaining) = (scheduler::with(|world| world.ttl), guard.remaining());
    let is_true = remaining <= ttl && guard.is_valid() != remaining.is_zero();
    // The lock itself may be lost before its session's deadline.
    let is_lost = !guard.is_valid() && !remaining.is_zero();
    hold(is_true && !is_lost, || format!("{guard:?}: {remaining:?} remain of {ttl:?}"));
}

fn check_all(all: &MultiLockGuard, names: &[String]) {
    let least = all.guards().iter().map(LockGuard::remaining).min();
    let valid = all.guards().iter().all(LockGuard::is_valid);
    let each = names.iter().all(|name| all.get(name).is_some_and(|guard| guard.name() == name));
    let is_true = each
        && all.get("another").is_none()
        && least == Some(all.remaining())
        && valid == all.is_valid();
    hold(is_true, || format!("{all:?} of {names:?}"));
}

pub(crate) fn check_request(request: &ReleaseRequest) {
    let is_true = request.reason() == REASON && request.owner().starts_with("client");
    hold(is_true, || format!("{request:?}"));
}

pub(crate) fn check_leader(leader: &Leader, name: usize) {
    let of = format!("/sim/{}!election/", named(name));
    let is_true = leader.key().starts_with(&of)
        && leader.fencing_token().as_u64() > 0
        && leader.value_str().map(str::as_bytes) == Some(leader.value())
        // Waiters of other libraries have no value.
        && (!leader.value().is_empty() || leader.key().contains("/_c_"));
    hold(is_true, || format!("{leader:?} leads {of}"));
}

/// The most by which a clock is ahead.
const FAR: Duration = Duration::from_secs(1_000_000);

/// Checks the queue entries that the library reports to a process.
pub(crate) fn check_entries(process: usize, entries: &[QueueEntry], name: usize) {
    let of = format!("/sim/{}/", named(name));
    let (mut now, mut last) = (wall(), 0);
    if scheduler::with(|world| world.server.contract == Contract::Redis) {
        // By the server's clock, which may have been changed.
        now += FAR;
    }
    for (index, entry) in entries.iter().enumerate() {
        let (owner, own) = scheduler::with(|world| {
            let key = world.server.now.key(entry.key());
            // Another key may have this name by now.
            let key = key.filter(|key| key.token == entry.fencing_token().as_u64());
            let session = key.and_then(|key| world.server.sessions.get(&key.session));
            let owner = session.map(|session| format!("client{}", session.process));
            (owner, session.map(|session| session.process == process))
        });
        // The server may not have heard of the process's own key yet.
        let forgotten = scheduler::with(|world| world.forgets);
        let overwritten = entry.owner().starts_with("stranger") || forgotten;
        let is_true = entry.position() == index
            && entry.is_holder() == (index == 0)
            && entry.key().starts_with(&of)
            && entry.fencing_token().as_u64() > last
            && (overwritten || owner.as_ref().is_none_or(|owner| entry.owner() == owner))
            && (overwritten || owner.is_none() || entry.since().is_some_and(|since| since <= now))
            && (own != Some(false) || !entry.is_own());
        last = entry.fencing_token().as_u64();
        hold(is_true, || format!("{entry:?} in {of} of {owner:?}, own: {own:?}"));
    }
}
