//! Runs a program on a store, and compares the outcome of each call with the model.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use distlock::{
    Client, Error, LockGuard, Permit, QueueEntry, ReadGuard, Result as Answer, WriteGuard,
};
use tokio::{task::JoinHandle, time::timeout};

use super::{
    call::{CLIENTS, Call, LOCKS, Lock, PERMITS, Want},
    model::{Model, Outcome},
};
use crate::common::{Case, poll};

/// The time limit of a call that the model refuses.
const MOMENT: Duration = Duration::from_millis(50);

/// Where a run differs from the model, and how.
type Result<T = ()> = std::result::Result<T, String>;

enum Guard {
    Mutex(LockGuard),
    Read(ReadGuard),
    Write(WriteGuard),
    Permit(Permit),
}

impl Guard {
    fn lock(&self) -> &LockGuard {
        match self {
            Self::Mutex(guard) => guard,
            Self::Read(guard) => guard,
            Self::Write(guard) => guard,
            Self::Permit(guard) => guard,
        }
    }

    async fn unlock(self) -> Answer<()> {
        match self {
            Self::Mutex(guard) => guard.unlock().await,
            Self::Read(guard) => guard.unlock().await,
            Self::Write(guard) => guard.unlock().await,
            Self::Permit(guard) => guard.release().await,
        }
    }
}

/// The run of one program, on locks of its own.
struct Run<'a> {
    t: &'a Case,
    number: usize,
    time_limit: Duration,
    model: Model,
    clients: Vec<Client>,
    held: BTreeMap<usize, Guard>,
    waiting: BTreeMap<usize, JoinHandle<Answer<Guard>>>,
    /// Evicted waiters. They notice it at their next recheck or event.
    evicted: Vec<JoinHandle<Answer<Guard>>>,
    /// The highest token of each lock.
    tokens: BTreeMap<Lock, u64>,
}

/// Returns an error if the run differs from the model. No call may take longer than `time_limit`.
pub(crate) async fn run(t: &Case, program: &[Call], time_limit: Duration) -> Result {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(t.builder().connect().await.map_err(|error| format!("{error:?}"))?);
    }
    let number = NUMBER.fetch_add(1, Relaxed);
    let (held, waiting, evicted, tokens) = <_>::default();
    let model = Model::new();
    let mut run = Run { t, number, time_limit, model, clients, held, waiting, evicted, tokens };
    let mut outcome = Ok(());
    for (place, call) in program.iter().enumerate() {
        outcome = run.step(*call).await.map_err(|error| format!("call {place}, {call:?}: {error}"));
        if outcome.is_err() {
            break;
        }
    }
    run.end().await?;
    outcome
}

impl Run<'_> {
    async fn soon<T>(&self, what: &str, future: impl Future<Output = T>) -> Result<T> {
        let late = |_| format!("not within {:?}: {what}", self.time_limit);
        timeout(self.time_limit, future).await.map_err(late)
    }

    fn name(&self, lock: Lock) -> String {
        format!("p{}-{lock:?}", self.number)
    }

    fn key(&self, lock: Lock) -> String {
        self.t.data_key(&self.name(lock))
    }

    /// Acquires what is wanted, within `limit`.
    fn acquire(
        &self,
        client: usize,
        want: Want,
        limit: Option<Duration>,
    ) -> impl Future<Output = Answer<Option<Guard>>> + Send + 'static {
        let (client, name) = (self.clients[client].clone(), self.name(want.lock()));
        let permits = *PERMITS.start();
        async move {
            Ok(match (want, limit) {
                (Want::Mutex(_), None) => Some(Guard::Mutex(client.mutex(name).lock().await?)),
                (Want::Read, None) => Some(Guard::Read(client.rw_lock(name).read().await?)),
                (Want::Write, None) => Some(Guard::Write(client.rw_lock(name).write().await?)),
                (Want::Permits(wanted), None) => {
                    let semaphore = client.semaphore(name, permits);
                    Some(Guard::Permit(semaphore.acquire_many(wanted).await?))
                }
                (Want::Mutex(_), Some(limit)) => {
                    client.mutex(name).lock_timeout(limit).await?.map(Guard::Mutex)
                }
                (Want::Read, Some(limit)) => {
                    client.rw_lock(name).read_timeout(limit).await?.map(Guard::Read)
                }
                (Want::Write, Some(limit)) => {
                    client.rw_lock(name).write_timeout(limit).await?.map(Guard::Write)
                }
                (Want::Permits(wanted), Some(limit)) => {
                    let semaphore = client.semaphore(name, permits);
                    semaphore.acquire_many_timeout(wanted, limit).await?.map(Guard::Permit)
                }
            })
        }
    }

    async fn entries(&self, by: usize, lock: Lock) -> Answer<Vec<QueueEntry>> {
        let (client, name) = (&self.clients[by], self.name(lock));
        match lock {
            Lock::Mutex(_) => client.mutex(name).queue().await,
            Lock::ReadWrite => client.rw_lock(name).queue().await,
            Lock::Semaphore => client.semaphore(name, *PERMITS.start()).queue().await,
        }
    }

    async fn step(&mut self, call: Call) -> Result {
        let by_try = matches!(call, Call::Try(..));
        match self.model.step(call) {
            Outcome::Nothing => {}
            Outcome::Granted { id, client, want } => {
                // A try does not wait. Other calls get as much time as a busy machine needs.
                let limit = if by_try { Duration::ZERO } else { self.time_limit };
                let granted =
                    self.soon("the call returns", self.acquire(client, want, Some(limit))).await?;
                let guard = ok(granted)?.ok_or("the call was not granted")?;
                self.granted(id, want.lock(), guard)?;
            }
            Outcome::Refused { client, want, tries } => {
                let limit = if tries { Duration::ZERO } else { MOMENT };
                let granted =
                    self.soon("the call returns", self.acquire(client, want, Some(limit))).await?;
                if ok(granted)?.is_some() {
                    return Err("the call was granted".to_owned());
                }
            }
            Outcome::Waits { id, client, want } => {
                let acquiring = self.acquire(client, want, None);
                let acquiring =
                    async { acquiring.await.map(|guard| guard.expect("a call without limit")) };
                self.waiting.insert(id, tokio::spawn(acquiring));
            }
            Outcome::Cancelled { id } => {
                if let Some(waiting) = self.waiting.remove(&id) {
                    waiting.abort();
                }
            }
            Outcome::Unlocked { id } => {
                let guard = self.take(id)?;
                ok(self.soon("the lock is released", guard.unlock()).await?)?;
            }
            Outcome::Dropped { id } => drop(self.take(id)?),
            Outcome::Downgraded { id } => match self.take(id)? {
                Guard::Write(guard) => {
                    let guard =
                        ok(self.soon("the guard is downgraded", guard.downgrade()).await?)?;
                    self.held.insert(id, Guard::Read(guard));
                }
                _ => return Err("the guard is not a writer's".to_owned()),
            },
            Outcome::Evicted { by, lock, index, id, was_in } => {
                let entries = ok(self.entries(by, lock).await)?;
                let entry = entries.get(index).ok_or("the entry is not in the queue")?;
                if !ok(self
                    .soon("the entry is evicted", self.clients[by].evict_entry(entry))
                    .await?)?
                {
                    return Err("no entry was evicted".to_owned());
                }
                self.evicted(id, was_in).await?;
            }
            Outcome::PermitsSet { by, permits } => {
                let name = self.name(Lock::Semaphore);
                let semaphore = self.clients[by].semaphore(name, *PERMITS.start());
                ok(self.soon("the permits are set", semaphore.set_permits(permits)).await?)?;
                same("permits", &ok(semaphore.permits().await)?, &self.model.permits())?;
            }
            Outcome::Put { id, lock, value } => {
                let key = self.key(lock);
                let guard = self.held.get(&id).ok_or("the guard does not exist")?.lock();
                ok(self.soon("the value is written", guard.put(key, [value])).await?)?;
            }
            Outcome::Got { id, lock, value } => {
                let key = self.key(lock);
                let guard = self.held.get(&id).ok_or("the guard does not exist")?.lock();
                let read = ok(self.soon("the value is read", guard.get(key)).await?)?;
                same("the value", &read, &value.map(|value| vec![value]))?;
            }
            Outcome::Listed { by, lock } => self.listed(by, lock).await?,
            Outcome::Closed { client, held, waiting } => {
                ok(self.soon("the client closes", self.clients[client].close()).await?)?;
                for id in held {
                    if self.take(id)?.lock().is_valid() {
                        return Err("a lock of a closed client is valid".to_owned());
                    }
                }
                for id in waiting {
                    let error = self.refusal(id).await?;
                    if !matches!(error, Error::Closed) {
                        return Err(format!("a waiter of a closed client: {error:?}"));
                    }
                }
                self.clients[client] = ok(self.t.builder().connect().await)?;
            }
        }
        self.settle().await
    }

    /// Waits until all calls that the model grants have their guards, and each queue is as the
    /// model says.
    async fn settle(&mut self) -> Result {
        for lock in LOCKS {
            for place in self.model.queue(lock).to_vec() {
                if place.is_in && !self.held.contains_key(&place.id) {
                    let waiting = self.waiting.remove(&place.id).ok_or("no call waits for it")?;
                    let granted = self.soon("the waiting call is granted", waiting).await?;
                    let guard = ok(granted.map_err(|error| error.to_string())?)?;
                    self.granted(place.id, lock, guard)?;
                } else if !place.is_in && self.waiting[&place.id].is_finished() {
                    return Err(format!("{place:?} did not wait"));
                }
            }
            self.listed(place_of(lock, self.number), lock).await?;
        }
        match self.held.values().all(|guard| guard.lock().is_valid()) {
            true => Ok(()),
            false => Err("a lock was lost".to_owned()),
        }
    }

    fn granted(&mut self, id: usize, lock: Lock, guard: Guard) -> Result {
        let token = guard.lock().fencing_token().as_u64();
        let last = self.tokens.insert(lock, token).unwrap_or(0);
        self.held.insert(id, guard);
        if token > last { Ok(()) } else { Err(format!("token {token} after {last}")) }
    }

    fn take(&mut self, id: usize) -> Result<Guard> {
        self.held.remove(&id).ok_or_else(|| "the guard does not exist".to_owned())
    }

    /// Returns the error of a call that waited.
    async fn refusal(&mut self, id: usize) -> Result<Error> {
        let waiting = self.waiting.remove(&id).ok_or("no such call waits")?;
        let returned = self.soon("the waiting call returns", waiting).await?;
        match returned.map_err(|error| error.to_string())? {
            Ok(_) => Err("the waiting call was granted".to_owned()),
            Err(error) => Ok(error),
        }
    }

    async fn evicted(&mut self, id: usize, was_in: bool) -> Result {
        if was_in {
            let guard = self.take(id)?;
            self.soon("the holder is notified", guard.lock().lost()).await?;
            return match self.soon("the call returns", guard.unlock()).await? {
                Err(Error::Lost { .. }) => Ok(()),
                other => Err(format!("unlock of an evicted guard: {other:?}")),
            };
        }
        let waiting = self.waiting.remove(&id).ok_or("no such call waits")?;
        self.evicted.push(waiting);
        Ok(())
    }

    /// Checks that a client sees the queue of the model, possibly after a moment.
    async fn listed(&self, by: usize, lock: Lock) -> Result {
        let places = self.model.queue(lock);
        let expected: Vec<_> =
            places.iter().map(|place| (place.is_in, place.client == by)).collect();
        let mut seen = Ok(Vec::new());
        let is_so = poll(self.time_limit, async || {
            seen = self.entries(by, lock).await.map(|entries| {
                entries.iter().map(|entry| (entry.is_holder(), entry.is_own())).collect()
            });
            seen.as_ref().is_ok_and(|seen: &Vec<_>| *seen == expected)
        });
        match is_so.await {
            true => Ok(()),
            false => Err(format!("the queue of {lock:?} is {seen:?} instead of {expected:?}")),
        }
    }

    /// Closes the clients and removes all keys.
    async fn end(mut self) -> Result {
        for evicted in std::mem::take(&mut self.evicted) {
            if evicted.is_finished() {
                match evicted.await.map_err(|error| error.to_string())? {
                    Err(Error::Evicted { .. } | Error::Closed) => {}
                    other => return Err(format!("evicted: {:?}", other.map(drop))),
                }
            } else {
                evicted.abort();
            }
        }
        self.waiting.values().for_each(JoinHandle::abort);
        self.held.clear();
        for client in &self.clients {
            ok(self.soon("the client closes", client.close()).await?)?;
        }
        for lock in LOCKS {
            self.t.store.erase(&self.key(lock)).await;
        }
        let own = format!("/{}", self.name(Lock::Semaphore));
        for key in self.t.keys().await {
            if key.contains(&own) && key.contains("limit=") {
                self.t.store.erase(&key).await;
            }
        }
        Ok(())
    }
}

/// Varies the client that reads the queue.
fn place_of(lock: Lock, number: usize) -> usize {
    let index = LOCKS.iter().position(|other| *other == lock).unwrap_or(0);
    (index + number) % CLIENTS
}

fn ok<T>(answer: Answer<T>) -> Result<T> {
    answer.map_err(|error| format!("{error:?}"))
}

fn same<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) -> Result {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what}: {found:?} instead of {expected:?}")),
    }
}
