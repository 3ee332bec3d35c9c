//! The library's interface to the simulated store: each call is one request.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::{oneshot, watch};

use crate::{
    attempts::Attempts,
    backend::{
        Ask, Backend, Entry, Event, Extras, Facts, Fate, Join, Joined, Joiner, LeaveOutcome,
        LeaveRequest, Listing, LockStore, Present, Queue, Rewrite, Rewritten, SequencePoint,
        Specifics, Standing, Store, StoreError, Ticket, Watch, Watched, Write,
        contract::store::watch_and_look,
    },
    lost::LostReason,
    network::Letter,
    plan::Strike,
    runtime::clock::timeout,
    scheduler,
    server::{Change, Contract, Entering, Server, Target, Watching, tags},
    store_kind::StoreKind,
    trace,
};

/// The simulated store, as one process reaches it.
#[derive(Debug)]
pub(crate) struct SimulatedBackend {
    pub(crate) process: usize,
    pub(crate) contract: Contract,
}

#[async_trait]
impl Backend for SimulatedBackend {
    fn kind(&self) -> StoreKind {
        self.contract.store()
    }

    async fn open(&self, _: Duration) -> Result<(Facts, Arc<dyn Store>), StoreError> {
        let (sender, receiver) = oneshot::channel();
        let process = self.process;
        let request_timeout = scheduler::with(|world| {
            let way =
                world.latency() + world.processes[process].blocked.saturating_sub(world.now());
            let refused =
                world.now() < world.processes[process].refused || world.chance(world.faults);
            if let Some(time) = world.processes[process].stalls.take() {
                world.strike(Strike::Stop(process, way + time));
            }
            world.scheduler.after(way, move |world| {
                let there = !refused && !world.processes[process].dead;
                if let Some(opened) = there.then(|| world.open_session(process)).flatten() {
                    drop(sender.send(opened));
                }
            });
            world.request_timeout
        });
        let opened = timeout(request_timeout, receiver).await;
        let Ok(Ok((id, ended))) = opened else {
            return Err(StoreError::Unavailable("no server opens a session".into()));
        };
        let ttl = scheduler::with(|world| world.ttl);
        let facts = match self.contract {
            Contract::Etcd | Contract::Redis => Facts {
                keeps_old_names: true,
                follows_if_there: true,
                joins_late: true,
                ticket_in: Some(ticket_in),
                ..Facts::new(ttl)
            },
            Contract::ZooKeeper => Facts {
                renewed_when_idle: false,
                relays_renewals: true,
                renames_relabelled: true,
                joins_late: true,
                watch_budget: 2000,
                ..Facts::new(ttl)
            },
        };
        let store = SimulatedStore {
            id,
            process,
            contract: self.contract,
            request_timeout,
            closed: AtomicBool::new(false),
            ended,
            attempts: Attempts::default(),
        };
        Ok((facts, Arc::new(store)))
    }
}

/// Returns the ticket in a key's name, as on etcd.
fn ticket_in(key: &str) -> Option<Ticket> {
    let (_, name) = key.rsplit_once('/')?;
    let (_, place) = name.split_once('-')?;
    Ticket::parse(place.split_once('.').map_or(place, |(ticket, _)| ticket))
}

/// How often to try to join a queue whose directory is repeatedly removed.
const ATTEMPTS: usize = 8;

struct SimulatedStore {
    id: u64,
    process: usize,
    contract: Contract,
    request_timeout: Duration,
    closed: AtomicBool,
    ended: watch::Receiver<bool>,
    attempts: Attempts,
}

impl fmt::Debug for SimulatedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimulatedStore({})", self.id)
    }
}

impl SimulatedStore {
    async fn ask<T: Send + 'static>(
        &self,
        name: &'static str,
        request: impl FnOnce(&mut Server) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        self.send(name, false, request).await
    }

    async fn look<T: Send + 'static>(
        &self,
        name: &'static str,
        request: impl FnOnce(&mut Server) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        self.send(name, true, request).await
    }

    async fn send<T: Send + 'static>(
        &self,
        name: &'static str,
        local: bool,
        request: impl FnOnce(&mut Server) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(StoreError::SessionGone(LostReason::ClientClosed));
        }
        let (answer, answered) = oneshot::channel();
        let (session, process) = (self.id, self.process);
        let letter = Letter { session, process, name, local, request: Box::new(request), answer };
        scheduler::with(|world| world.send(letter));
        match timeout(self.request_timeout, answered).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(StoreError::Unknown("the connection was lost".into())),
            Err(late) => Err(StoreError::Unknown(late.into())),
        }
    }
}

/// Converts the error of a request that followed the creation of a key.
fn in_doubt(error: StoreError) -> StoreError {
    match error {
        StoreError::SessionGone(reason) => StoreError::SessionGone(reason),
        error => StoreError::Unknown(error.reason().into()),
    }
}

fn watch_of(receiver: oneshot::Receiver<Event>) -> Watch {
    Box::pin(async move { receiver.await.map_err(|gone| StoreError::Unknown(gone.into())) })
}

/// Sets a watch. Watches without a waiter are removed.
fn set_watch(server: &mut Server, session: u64, target: Target) -> Watch {
    let since = server.view_of(session).revision;
    set_watch_since(server, session, target, since)
}

fn set_watch_since(server: &mut Server, session: u64, target: Target, since: u64) -> Watch {
    server.watches.retain(|_, watching| !watching.sender.is_closed());
    let (sender, receiver) = oneshot::channel();
    let id = server.number();
    server.watches.insert(id, Watching { session, target, since, sender });
    watch_of(receiver)
}

/// Sets a watch on a key from before the key was created, as a session of etcd does.
fn watch_since(server: &mut Server, session: u64, ahead: &Entry) -> Watch {
    let name = |change: &Change| change.deleted && change.name == ahead.key;
    if server.between(ahead.revision, server.now.revision).any(name) {
        return Box::pin(async { Ok(Event::Deleted) });
    }
    let target = Target::Key(Arc::clone(&ahead.key));
    set_watch_since(server, session, target, ahead.revision)
}

#[async_trait]
impl LockStore for SimulatedStore {
    async fn keep_alive(&self) -> Result<Duration, StoreError> {
        let (id, contract) = (self.id, self.contract);
        self.ask("keep_alive", move |server| {
            let time = server.time;
            let record = server.sessions.get_mut(&id);
            let ttl = record.as_ref().map_or(Duration::ZERO, |session| session.ttl);
            match (contract, record) {
                (Contract::Etcd, Some(session)) => session.heard = time,
                // It passes through the leader's log, but changes no key.
                _ => server.change(Vec::new(), |_| {}),
            }
            if contract == Contract::Etcd { ttl } else { ttl * 2 / 3 }
        })
        .await
    }

    async fn enqueue(
        &self,
        Joiner { queue, ticket }: Joiner<'_>,
        value: &[u8],
        join: Join,
    ) -> Result<Joined, StoreError> {
        let (id, queue, value) = (self.id, queue.clone(), value.to_vec());
        let guess = scheduler::draw(fastrand::Rng::bool);
        self.attempts.begin(ticket);
        let mut again = false;
        for _ in 0..ATTEMPTS {
            let (queue, value) = (queue.clone(), value.clone());
            let enter = move |server: &mut Server| {
                server.enqueue(id, (&queue, ticket), &value, join, (guess, again))
            };
            match self.ask("enqueue", enter).await? {
                Entering::Joined(joined) => {
                    self.attempts.joined(ticket, &joined);
                    return Ok(joined);
                }
                // If that fails, the node exists.
                Entering::Misnamed(name) => {
                    let taken_back = self.ask("take_back", move |server| server.take_back(&name));
                    taken_back.await.map_err(in_doubt)?;
                    again = true;
                }
            }
        }
        Err(StoreError::Unavailable("the directory is repeatedly removed".into()))
    }

    async fn standing(&self, entry: &Entry) -> Result<Standing, StoreError> {
        let (id, entry) = (self.id, entry.clone());
        self.look("standing", move |server| server.view_of(id).standing_of(&entry)).await
    }

    async fn present(&self, entry: &Entry, ahead: &Entry) -> Result<Present, StoreError> {
        let (id, entry, ahead) = (self.id, entry.clone(), ahead.clone());
        self.look("present", move |server| server.look_at_both(id, &entry, &ahead)).await
    }

    async fn own_keys(&self) -> Result<Vec<Arc<str>>, StoreError> {
        let id = self.id;
        let list = move |server: &mut Server| -> Vec<_> {
            let own = server.view_of(id);
            own.of_session(id).map(|key| (Arc::clone(&key.name), key.ticket.clone())).collect()
        };
        let keys = self.look("own_keys", list).await?;
        if self.contract == Contract::ZooKeeper {
            for (name, _) in keys.iter().filter(|(name, of)| self.attempts.is_stray(name, of)) {
                let name = Arc::clone(name);
                self.ask("take_back", move |server| server.take_back(&name)).await?;
            }
        }
        Ok(keys.into_iter().map(|(name, _)| name).collect())
    }

    async fn watch(&self, entry: &Entry, _: bool) -> Result<Option<Watch>, StoreError> {
        let (id, entry) = (self.id, entry.clone());
        self.look("watch", move |server| {
            // Another key of that name may take its place.
            let there = server.view_of(id).key(&entry.key);
            there.filter(|key| entry.revision == 0 || key.revision == entry.revision)?;
            Some(set_watch(server, id, Target::Key(entry.key)))
        })
        .await
    }

    async fn leave(
        &self,
        Joiner { queue, ticket }: Joiner<'_>,
        leave: LeaveRequest<'_>,
    ) -> Result<LeaveOutcome, StoreError> {
        let (id, queue, held) = (self.id, queue.clone(), leave.held);
        let (entry, successor) = (leave.entry.cloned(), leave.successor.cloned());
        self.ask("leave", move |server| {
            let leave = LeaveRequest { entry: entry.as_ref(), held, successor: successor.as_ref() };
            server.leave(id, &queue, ticket, leave)
        })
        .await
        .inspect(|_| self.attempts.end(ticket))
    }

    async fn close(&self) -> Result<(), StoreError> {
        let (id, was) = (self.id, self.closed.swap(false, Ordering::Relaxed));
        scheduler::with(|world| {
            if let Some(session) = world.server.sessions.get_mut(&id) {
                session.closing = true;
            }
        });
        let closed =
            self.ask("close", move |server| drop(server.end(id, trace::What::Closed))).await;
        self.closed.store(true, Ordering::Relaxed);
        match closed {
            Err(StoreError::SessionGone(_)) if was => Ok(()),
            closed => closed,
        }
    }

    async fn list(&self, queue: &Queue, ask: Ask) -> Result<Listing, StoreError> {
        let (id, queue) = (self.id, queue.clone());
        let list = move |server: &mut Server| {
            if ask.fresh {
                server.refresh(id);
            }
            let watch = ask.watch.then(|| set_watch(server, id, Target::Dir(queue.shared_dir())));
            let view = server.view_of(id);
            Listing {
                members: view.members(&queue, id, ask),
                notes: view.notes(queue.dir()).map(Into::into).collect(),
                watch,
                ..Listing::default()
            }
        };
        self.send("list", !ask.fresh, list).await
    }
}

#[async_trait]
impl Specifics for SimulatedStore {
    fn marks_releases(&self, ahead: &Entry) -> bool {
        let name = ahead.key.rsplit('/').next().unwrap_or_default();
        match self.contract {
            Contract::Etcd | Contract::Redis => ahead.crowded && !name.contains('.'),
            Contract::ZooKeeper => name.split('-').count() == 3 && !tags::is_worn(name),
        }
    }

    async fn watch_ahead(
        &self,
        ahead: &Entry,
        there: Option<SequencePoint>,
        own: Option<&Entry>,
    ) -> Result<Watched, StoreError> {
        if self.contract == Contract::ZooKeeper {
            let look = own.map(|own| self.present(own, ahead));
            return watch_and_look(self.watch(ahead, true), look).await;
        }
        if ahead.revision > 0 && scheduler::with(|world| world.chance(500)) {
            let (id, ahead) = (self.id, ahead.clone());
            let watch = self.look("watch", move |server| watch_since(server, id, &ahead)).await?;
            return Ok(Watched::Since(watch));
        }
        // Whether the key exists or not.
        let (id, key) = (self.id, Arc::clone(&ahead.key));
        let begun = self.look("watch", move |server| {
            let start = server.view_of(id).revision;
            (start, set_watch(server, id, Target::Key(key)))
        });
        let (start, watch) = begun.await?;
        if there.is_some_and(|SequencePoint(there)| there >= start) {
            return Ok(Watched::Begun(watch));
        }
        match self.present(own.unwrap_or(ahead), ahead).await? {
            Present { own: true, ahead: Fate::There } => Ok(Watched::Begun(watch)),
            present if own.is_some() => Ok(Watched::Over(present)),
            _ => Ok(Watched::Gone),
        }
    }

    async fn ended(&self) -> LostReason {
        let mut ended = self.ended.clone();
        if self.contract == Contract::Etcd || ended.wait_for(|ended| *ended).await.is_err() {
            std::future::pending::<()>().await;
        }
        LostReason::SessionExpired
    }

    async fn own_entry(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let (id, key) = (self.id, key.to_owned());
        self.ask("own_entry", move |server| {
            let own = server.now.key(&key).filter(|key| key.session == id);
            own.map(|key| key.entry())
        })
        .await
    }

    async fn remove(&self, entry: &Entry) -> Result<bool, StoreError> {
        let (id, entry) = (self.id, entry.clone());
        self.ask("remove", move |server| server.remove(id, &entry)).await
    }
}

#[async_trait]
impl Extras for SimulatedStore {
    async fn rewrite(&self, rewrite: Rewrite<'_>) -> Result<Rewritten, StoreError> {
        let Rewrite { entry, value, version, .. } = rewrite;
        let (entry, value) = (entry.clone(), value.to_vec());
        self.ask("rewrite", move |server| server.rewrite_own(&entry, &value, version)).await
    }

    async fn relabel(
        &self,
        to: Joiner<'_>,
        entry: &Entry,
        value: &[u8],
    ) -> Result<Option<Entry>, StoreError> {
        self.attempts.begin(to.ticket);
        let (queue, entry, value) = (to.queue.clone(), entry.clone(), value.to_vec());
        let relabelled =
            self.ask("relabel", move |server| server.relabel(&queue, &entry, &value)).await?;
        if let Some(entry) = &relabelled {
            self.attempts.has(to.ticket, &entry.key);
        }
        Ok(relabelled)
    }

    async fn commit(&self, guards: &[Entry], writes: &[Write]) -> Result<bool, StoreError> {
        let (guards, writes) = (guards.to_vec(), writes.to_vec());
        self.ask("commit", move |server| server.commit(&guards, &writes)).await
    }

    async fn enqueue_all(
        &self,
        joiners: &[Joiner<'_>],
        value: &[u8],
    ) -> Result<Option<Vec<Joined>>, StoreError> {
        let queues: Vec<_> =
            joiners.iter().map(|joiner| (joiner.queue.clone(), joiner.ticket)).collect();
        let (id, value) = (self.id, value.to_vec());
        joiners.iter().for_each(|joiner| self.attempts.begin(joiner.ticket));
        let joined =
            self.ask("enqueue_all", move |server| server.enqueue_all(id, &queues, &value)).await?;
        for (place, joiner) in joiners.iter().enumerate() {
            match joined.as_ref().and_then(|joined| joined.get(place)) {
                Some(joined) => self.attempts.joined(joiner.ticket, joined),
                None => self.attempts.end(joiner.ticket),
            }
        }
        Ok(joined)
    }
}
