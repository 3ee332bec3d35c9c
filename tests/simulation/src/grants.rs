//! What a caller holds, and checks of what it learns about it.

use std::{
    future::{Future, poll_fn},
    ops::Deref,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use crate::{
    backend::Entry,
    claims,
    error::Error,
    history::What,
    holders::{self, Holder, Mode, Valid},
    lost::LostReason,
    network::DENIED,
    primitives::{
        guard::LockGuard,
        leadership::Leadership,
        multi_lock::MultiLockGuard,
        rwlock::{ReadGuard, WriteGuard},
        semaphore::Permit,
    },
    runtime::clock::sleep,
    scheduler,
};

pub(crate) enum Guard {
    Lock(LockGuard),
    Read(ReadGuard),
    Write(WriteGuard),
    /// With the number of permits that the caller assumes.
    Permit(Permit, u32),
    Leader(Leadership),
    All(MultiLockGuard),
}

impl Guard {
    pub(crate) fn each(&self) -> Vec<(&LockGuard, Mode)> {
        match self {
            Self::Lock(guard) => vec![(guard, Mode::Exclusive)],
            Self::Read(guard) => vec![(guard.deref(), Mode::Shared)],
            Self::Write(guard) => vec![(guard.deref(), Mode::Exclusive)],
            Self::Permit(permit, of) => {
                vec![(permit.deref(), Mode::Permits(permit.permits(), *of))]
            }
            Self::Leader(leader) => vec![(leader.deref(), Mode::Exclusive)],
            Self::All(all) => all.guards().iter().map(|guard| (guard, Mode::Exclusive)).collect(),
        }
    }

    async fn unlock(self) -> Result<(), Error> {
        match self {
            Self::Lock(guard) => guard.unlock().await,
            Self::Read(guard) => guard.unlock().await,
            Self::Write(guard) => guard.unlock().await,
            Self::Permit(permit, _) => permit.release().await,
            Self::Leader(leader) => leader.resign().await,
            Self::All(all) => all.unlock().await,
        }
    }
}

/// One guard of several.
struct Part {
    guard: Arc<Guard>,
    index: usize,
}

impl Valid for Part {
    fn is_valid(&self) -> bool {
        self.guard.each()[self.index].0.is_valid()
    }
}

/// A guard whose validity the other checks may query.
pub(crate) struct Held {
    guard: Arc<Guard>,
    numbers: Vec<u64>,
}

pub(crate) fn register(process: usize, guard: Guard) -> Held {
    let guard = Arc::new(guard);
    let each = guard.each().into_iter().enumerate();
    let new: Vec<_> = each
        .map(|(index, (own, mode))| Holder {
            process,
            queue: own.held.queue.shared_dir(),
            key: own.key().into(),
            revision: own.held.own.entry.revision,
            token: own.fencing_token().as_u64(),
            mode,
            guard: Arc::new(Part { guard: Arc::clone(&guard), index }),
            deleted: None,
        })
        .collect();
    let alone = !matches!(*guard, Guard::All(_));
    for holder in &new {
        scheduler::with(|world| {
            world.note(process, What::Grants(Arc::clone(&holder.key), holder.token));
            if let Some(trace) = &mut world.server.trace {
                trace.granted(&holder.queue, holder.token);
            }
        });
    }
    let numbers = new.into_iter().map(|new| holders::granted(new, alone)).collect();
    Held { guard, numbers }
}

pub(crate) fn kind_of(error: &Error) -> String {
    let text = format!("{error:?}");
    text.split([' ', '(']).next().unwrap_or_default().to_owned()
}

impl Held {
    fn first(&self) -> Option<&LockGuard> {
        self.guard.each().first().map(|(guard, _)| *guard)
    }

    fn count(&self, what: &str, outcome: &Result<(), Error>) {
        let kind = outcome.as_ref().map_or_else(kind_of, |()| "Ok".to_owned());
        scheduler::with(|world| {
            world.history.coverage.count(format!("{what} {kind}"));
            if let Err(Error::Lost { reason, .. }) = outcome {
                world.history.coverage.count(format!("lost {reason:?}"));
            }
        });
    }

    pub(crate) async fn put(&self, value: &str) {
        let Some(guard) = self.first() else { return };
        let (key, own) = (format!("/data{}", guard.held.queue.dir()), guard.key());
        let outcome = guard.put(key, value).await;
        self.count("put", &outcome);
        scheduler::with(|world| {
            let written = world.server.written.iter().find(|(_, put, _)| **put == value.as_bytes());
            let unguarded = written
                .is_some_and(|(_, _, revision)| world.server.at(*revision).key(own).is_none());
            let written = written.is_some();
            if unguarded {
                world.history.violated(format!("put {value} was applied without {own}"));
            }
            match outcome {
                Ok(()) if !written && !world.forgets => {
                    world.history.violated(format!("put {value} is Ok, and was not applied"));
                }
                Err(Error::Lost { .. }) => {
                    world.history.unwritten.push(value.to_owned());
                }
                _ => {}
            }
        });
    }

    pub(crate) async fn proclaim(&self, value: &[u8]) {
        let Guard::Leader(leader) = &*self.guard else { return };
        let outcome = leader.proclaim(value).await;
        self.count("proclaim", &outcome);
        if outcome.is_err() {
            return;
        }
        let key = leader.key();
        scheduler::with(|world| {
            let there = world.server.now.key(key).map(|key| key.value.clone());
            let foreign = there.as_deref().is_some_and(|there| there.starts_with(b"stranger"));
            if there.is_some_and(|there| there != value) && !foreign && !world.forgets {
                let what = format!("a proclamation on {key} is Ok, and is not there");
                world.history.violated(what);
            }
        });
    }

    pub(crate) async fn lost(&self) -> Option<LostReason> {
        let reason = self.first()?.lost().await;
        scheduler::with(|world| world.history.coverage.count(format!("notified {reason:?}")));
        Some(reason)
    }

    pub(crate) async fn requested(&self) {
        if let (Guard::Lock(_), Some(guard)) = (&*self.guard, self.first()) {
            claims::check_request(&guard.release_requested().await);
            scheduler::with(|world| world.history.coverage.count("release requested"));
        }
    }

    /// Runs work that must not be polled once the lock is known to be lost.
    pub(crate) async fn run(&self, time: Duration) {
        let Some(guard) = self.first() else { return };
        let mut slept = pin!(sleep(time));
        let work = poll_fn(|context| {
            if !guard.is_valid() {
                let what = format!("{guard:?}: its work was polled after the loss");
                scheduler::with(|world| world.history.violated(what));
            }
            slept.as_mut().poll(context)
        });
        let done = guard.run(work).await;
        scheduler::with(|world| world.history.coverage.count(format!("run {}", done.is_ok())));
    }

    /// Lets an operator delete the held key, while faults occur; returns `true` if it was deleted.
    pub(crate) fn evict(&self) -> bool {
        let Some(guard) = self.first() else { return false };
        let key = Arc::clone(&guard.held.own.entry.key);
        scheduler::with(|world| {
            let there = world.server.now.key(&key).cloned();
            let there = there.filter(|_| !world.calm);
            there.is_some_and(|there| world.delete(&there))
        })
    }

    /// Returns the guard, and `true` if one of its keys had been deleted by an operator.
    fn take(self) -> (Option<Guard>, bool) {
        let evicted = self.numbers.iter().filter(|number| holders::released(**number)).count();
        (Arc::try_unwrap(self.guard).ok(), evicted > 0)
    }

    pub(crate) async fn downgrade(self, process: usize) -> Option<Self> {
        if !matches!(*self.guard, Guard::Write(_)) {
            return Some(self);
        }
        let (Some(Guard::Write(guard)), _) = self.take() else { return None };
        let token = guard.fencing_token();
        let outcome = guard.downgrade().await;
        if let Ok(guard) = &outcome
            && guard.fencing_token() != token
        {
            let what = format!("{guard:?} had {token:?} as a writer");
            scheduler::with(|world| world.history.violated(what));
        }
        let kind = outcome.as_ref().map_or_else(kind_of, |_| "Ok".to_owned());
        scheduler::with(|world| world.history.coverage.count(format!("downgrade {kind}")));
        Some(register(process, Guard::Read(outcome.ok()?)))
    }

    /// `Ok` means that the key is deleted. A dropped guard's key is deleted later.
    pub(crate) async fn release(self, process: usize, unlock: bool) {
        let entries: Vec<_> =
            self.guard.each().iter().map(|(guard, _)| guard.held.own.entry.clone()).collect();
        let (Some(guard), evicted) = self.take() else { return };
        scheduler::with(|world| {
            for entry in &entries {
                world.note(process, What::Releases(Arc::clone(&entry.key)));
            }
        });
        if !unlock {
            return drop(guard);
        }
        let (doubt, began) = scheduler::with(|world| (world.doubtful, world.now()));
        let outcome = guard.unlock().await;
        let kind = outcome.as_ref().map_or_else(kind_of, |()| "Ok".to_owned());
        scheduler::with(|world| {
            world.history.coverage.count(format!("unlock {kind}"));
            if let Err(Error::Lost { reason, .. }) = &outcome {
                world.history.coverage.count(format!("lost {reason:?}"));
            }
            if let Err(Error::ReleaseUnconfirmed { source, .. }) = &outcome
                && source.to_string().contains(DENIED)
            {
                world.history.violated(format!("unlock was denied, but the error is {source}"));
            }
            // After a lost reply, a retry that finds no key assumes that it deleted the key itself.
            let clear = world.doubtful == doubt
                && !entries.iter().any(|entry| world.server.mistaken.contains(entry))
                && world.now() < began + world.request_timeout
                && world.processes[process].struck == Duration::ZERO;
            if outcome.is_ok() && evicted && clear && !world.forgets {
                world.history.violated(format!("unlock is Ok, and {entries:?} was lost before"));
            }
            if outcome.is_ok() && !world.forgets {
                let there = |entry: &&Entry| world.server.key_of(entry).is_some();
                let left: Vec<_> = entries.iter().filter(there).collect();
                if !left.is_empty() {
                    world.history.violated(format!("unlock is Ok, but {left:?} still exists"));
                }
            }
        });
    }
}

/// The bound of a call after the last fault.
pub(crate) fn bound(ttl: Duration, recheck: Duration) -> Duration {
    ttl * 4 + recheck * 2 + Duration::from_secs(9)
}
