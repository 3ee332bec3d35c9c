//! A worker's use of a granted lock.

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use distlock::Error;
use distlock_testkit::clock::{micros, uptime};
use tokio::{task::JoinSet, time::sleep};

use super::{REQUEST_TIMEOUT, Worker, explain};
use crate::{
    event::{Event, Outcome},
    ledger,
    manner::Manner,
    primitive::{Held, Mode, Part},
    register::Resource,
};

/// A held lock that other tasks observe.
struct Watched {
    held: Arc<Held>,
    explain: JoinSet<()>,
}

impl Worker {
    /// Reads the registers, works, and writes them. It trusts the lock without checking it, as many
    /// programs do.
    pub(super) async fn hold(&self, held: Held, call: u64, resource: &mut Resource) {
        let mut watched = self.watch(held);
        match watched.held.mode() {
            Mode::Exclusive => self.write(&watched.held, call, resource).await,
            Mode::Shared => self.read(&watched.held, resource).await,
            // Concurrent holders would overwrite each other.
            Mode::Permits { .. } => sleep(self.work()).await,
        }
        if let Held::Lead(leadership) = &*watched.held
            && fastrand::u8(..3) == 0
        {
            self.call(Manner::Proclaim, None, leadership.proclaim("proclaimed")).await;
        }
        if matches!(*watched.held, Held::Write(_)) && fastrand::u8(..3) == 0 {
            let Some(reader) = self.downgrade(watched).await else { return };
            watched = self.watch(reader);
            self.read(&watched.held, resource).await;
        }
        self.release(watched).await;
    }

    async fn read(&self, held: &Held, resource: &mut Resource) {
        for (lock, token) in held.parts() {
            resource.read(&lock, Some(token)).await;
        }
        sleep(self.work()).await;
    }

    async fn write(&self, held: &Held, call: u64, resource: &mut Resource) {
        let value = (self.task.number << 32) + call;
        let work = self.work();
        // A holder that keeps the lock for too long has to write too late.
        let long = work > self.task.ttl;
        // Guarded writes are checked on stores with queues. On others, several guards of one client
        // may have the same key.
        let guarded = self.task.store.queues() && (long || fastrand::bool());
        let mut read = Vec::new();
        for part @ (lock, token) in &held.parts() {
            if guarded {
                resource.see(lock, *token).await;
            }
            let plain = resource.read(lock, None).await.unwrap_or_default();
            let fenced = resource.read(lock, Some(*token)).await;
            read.push((part.clone(), plain, fenced));
        }
        // Some write at once, and most after working.
        let early = !long && fastrand::u8(..4) == 0;
        if guarded && early {
            self.put(held, value).await;
        }
        sleep(work).await;
        for ((lock, token), plain, fenced) in read {
            resource.write(&lock, None, value, plain).await;
            if let Some(fenced) = fenced {
                resource.write(&lock, Some(token), value, fenced).await;
            }
            if guarded {
                resource.see(&lock, token).await;
            }
        }
        if guarded && !early {
            self.put(held, value).await;
        }
    }

    /// Writes under each of the guards.
    async fn put(&self, held: &Held, value: u64) {
        for (guard, part) in held.guards().iter().zip(held.parts()) {
            let write =
                guard.put(ledger::path(&self.task.namespace, &part.0), ledger::text(part.1, value));
            self.call(Manner::Put, Some((part, value)), write).await;
        }
    }

    /// Makes a call that only a holder may make.
    async fn call(
        &self,
        manner: Manner,
        writes: Option<(Part, u64)>,
        what: impl Future<Output = distlock::Result<()>>,
    ) {
        let call = self.calls.fetch_add(1, SeqCst);
        let (wish, lock) = (u64::MAX, String::new());
        let limit = Some(micros(REQUEST_TIMEOUT * 3));
        self.journal.record(Event::Called { call, wish, lock, manner, limit });
        if let Some(((lock, token), value)) = writes {
            self.journal.record(Event::Writing { call, lock, token, value });
        }
        let outcome = match what.await {
            Ok(()) => Outcome::Done,
            Err(Error::WriteUnconfirmed { .. }) => Outcome::Nothing,
            Err(error) if error.is_retryable() || matches!(error, Error::Lost { .. }) => {
                Outcome::Refused(explain(&error))
            }
            Err(error) => Outcome::Failed(explain(&error)),
        };
        self.journal.record(Event::Returned { call, outcome });
    }

    async fn downgrade(&self, watched: Watched) -> Option<Held> {
        for (lock, token) in watched.held.parts() {
            self.journal.record(Event::Downgrading { lock, token });
        }
        let (started, parts) = (uptime(), watched.held.parts());
        let Held::Write(writer) = self.unwatch(watched).await else { unreachable!("a writer") };
        match writer.downgrade().await {
            Ok(reader) => Some(Held::Read(reader)),
            Err(error) => {
                for (lock, token) in parts {
                    // The time is unknown.
                    let releasing = Event::Releasing { lock: lock.clone(), token, limit: None };
                    self.journal.record_at(started, releasing);
                    let outcome = match &error {
                        Error::Lost { .. } => Outcome::Refused(explain(&error)),
                        _ => Outcome::Failed(explain(&error)),
                    };
                    self.journal.record(Event::Released { lock, token, outcome });
                }
                None
            }
        }
    }

    async fn release(&self, watched: Watched) {
        let (waits, parts) = (fastrand::u8(..5) > 0, watched.held.parts());
        let limit = waits.then(|| micros(REQUEST_TIMEOUT * 2));
        for (lock, token) in parts.clone() {
            self.journal.record(Event::Releasing { lock, token, limit });
        }
        let held = self.unwatch(watched).await;
        let outcome = if waits {
            match held.release().await {
                Ok(()) => Outcome::Done,
                Err(error @ (Error::Lost { .. } | Error::ReleaseUnconfirmed { .. })) => {
                    Outcome::Refused(explain(&error))
                }
                Err(error) => Outcome::Failed(explain(&error)),
            }
        } else {
            drop(held);
            Outcome::Nothing
        };
        for (lock, token) in parts {
            self.journal.record(Event::Released { lock, token, outcome: outcome.clone() });
        }
    }

    /// Records what happens to the guard from now on.
    fn watch(&self, held: Held) -> Watched {
        let held = Arc::new(held);
        self.sampler.watch_over(&held);
        let mut explain = JoinSet::new();
        for (index, (lock, token)) in held.parts().into_iter().enumerate() {
            let (journal, held) = (self.journal.clone(), Arc::clone(&held));
            explain.spawn(async move {
                let reason = held.guards()[index].lost().await;
                journal.record(Event::Lost { lock, token, reason: format!("{reason:?}") });
            });
        }
        Watched { held, explain }
    }

    async fn unwatch(&self, Watched { mut held, mut explain }: Watched) -> Held {
        self.sampler.forget(&held);
        explain.shutdown().await;
        loop {
            // The sampler may be using it.
            match Arc::try_unwrap(held) {
                Ok(held) => return held,
                Err(shared) => held = shared,
            }
            tokio::task::yield_now().await;
        }
    }

    /// Returns how long the lock is needed: mostly briefly, sometimes for a part of the TTL.
    /// Sometimes it is so long that a holder that loses the lock writes after its successor.
    fn work(&self) -> Duration {
        let share = match fastrand::u8(..if self.task.brief { 64 } else { 8 }) {
            _ if self.calm.load(SeqCst) => 0.0,
            0 => 1.0 + fastrand::f64() * 1.5,
            1 => 0.2 + fastrand::f64() * 0.8,
            _ => 0.0,
        };
        Duration::from_millis(fastrand::u64(1..20)) + self.task.ttl.mul_f64(share)
    }
}
