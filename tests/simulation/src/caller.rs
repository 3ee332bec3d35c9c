//! A caller, which executes its plan through the library's public functions only.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

use crate::{
    claims::{self, REASON, named},
    client::Client,
    director::CONNECT_TIMEOUT,
    error::{Error, Result},
    grants::{self, Guard},
    history,
    plan::{End, How, Inside, Step, What},
    runtime::clock::{Instant, sleep, timeout},
    scheduler, settings,
};

/// How long a holder waits for a notification.
const LONGEST: Duration = Duration::from_secs(3);

/// How long a holder waits for a notification that must arrive.
const LATEST: Duration = Duration::from_secs(25);

/// How long a watcher of a queue continues after the last change.
const SOON: Duration = Duration::from_millis(50);

type Taking = Pin<Box<dyn Future<Output = Result<Option<Guard>>> + Send>>;

/// Futures that are no longer polled. Those that block no other caller are kept to the end.
#[derive(Clone, Default)]
pub(crate) struct Abandoned(pub(crate) Arc<Mutex<Vec<(bool, Taking)>>>);

impl Abandoned {
    fn add(&self, uncontended: bool, taking: Taking) {
        self.0.lock().expect("not poisoned").push((uncontended, taking));
    }

    /// Drops the futures that block other callers, or all of them.
    pub(crate) fn discard(&self, all: bool) {
        let mut abandoned = self.0.lock().expect("not poisoned");
        let (kept, discarded) = std::mem::take(&mut *abandoned)
            .into_iter()
            .partition(|(uncontended, _)| *uncontended && !all);
        *abandoned = kept;
        drop(abandoned);
        let discarded: Vec<_> = discarded;
        drop(discarded);
    }
}

pub(crate) struct Calling {
    pub(crate) number: usize,
    pub(crate) process: usize,
    pub(crate) client: Client,
    pub(crate) abandoned: Abandoned,
}

impl Calling {
    pub(crate) async fn run(self, steps: Vec<Step>) {
        for (count, step) in steps.into_iter().enumerate() {
            if scheduler::with(|world| world.calm) {
                break;
            }
            sleep(step.pause).await;
            self.step(count, &step).await;
        }
        scheduler::with(|world| {
            world.busy.remove(&self.number);
            world.doing.remove(&self.number);
        });
    }

    fn note(&self, what: history::What) {
        scheduler::with(|world| world.note(self.process, what));
    }

    async fn step(&self, count: usize, step: &Step) {
        let description = format!("{:?} {:?} {:?}", step.what, step.how, step.end);
        let began = Instant::now();
        let first = scheduler::with(|world| {
            world.doing.insert(self.number, description.clone());
            world.history.calls += 1;
            let until = world.now() + step.neglected;
            if !step.neglected.is_zero() && !world.calm {
                world.note(self.process, history::What::Neglected);
                if let Some(task) = world.scheduler.running() {
                    world.scheduler.neglect(task, until);
                }
            }
            world.server.now.revision
        });
        self.note(history::What::Calls(description.into()));
        if let What::Crowd(many) = step.what {
            return self.crowd(count, many).await;
        }
        let uncontended = format!("lonely-{}-{count}", self.number);
        let mut taking = take(self.client.clone(), self.process, uncontended.clone(), step);
        let taken = match step.end {
            End::Finished => Some(taking.await),
            End::DroppedAfter(polls) => {
                let taken = polled(&mut taking, polls).await;
                if taken.is_none() {
                    self.note(history::What::Dropped);
                    drop(taking);
                }
                taken
            }
            End::AbandonedAfter(polls) => {
                let taken = polled(&mut taking, polls).await;
                if taken.is_none() {
                    self.note(history::What::Abandoned);
                    self.abandoned.add(matches!(step.what, What::Uncontended), taking);
                    if scheduler::with(|world| world.calm) {
                        self.abandoned.discard(false);
                    }
                }
                taken
            }
        };
        self.check_time(step, began);
        match taken {
            None => {}
            Some(Ok(Some(guard))) => {
                claims::check_guard(&guard, &step.what, &uncontended);
                self.hold(guard, count, step).await;
            }
            Some(Ok(None)) => {
                self.note(history::What::Returns("nothing".into()));
                self.check_nothing(step, began.elapsed());
                check_busy(step, first);
            }
            Some(Err(error)) => {
                claims::check_error(&error, &step.what, &uncontended);
                self.failed(&error, step);
            }
        }
    }

    /// Starts acquisitions of uncontended locks that are polled once and then abandoned.
    async fn crowd(&self, count: usize, many: usize) {
        for number in 0..many {
            let name = format!("lonely-{}-{count}-{number}", self.number);
            let client = self.client.clone();
            let mut taking: Taking = Box::pin(async move { lock(&client, &name, How::Wait).await });
            if polled(&mut taking, 1).await.is_none() {
                self.abandoned.add(true, taking);
            }
        }
    }

    fn failed(&self, error: &Error, step: &Step) {
        let kind = grants::kind_of(error);
        scheduler::with(|world| {
            world.history.coverage.count(format!("error {kind}"));
            if let Error::SessionLost { reason, .. } = error {
                world.history.coverage.count(format!("waiting {reason:?}"));
            }
            let unasked = world.history.operated.is_empty() && !world.forgets;
            if matches!(error, Error::Evicted { .. }) && unasked {
                world.history.violated(format!("{step:?}: evicted, though no key was deleted"));
            }
        });
        self.note(history::What::Returns(format!("{error}").into()));
    }

    /// Checks that a try returns in time, and a call with a timeout at its timeout.
    fn check_time(&self, step: &Step, began: Instant) {
        let limit = match step.how {
            How::Wait => return,
            How::Try => Duration::ZERO,
            How::For(limit) => limit,
        };
        if !step.what.is_lock() {
            return;
        }
        let took = began.elapsed();
        scheduler::with(|world| {
            let process = &world.processes[self.process];
            // The previous step may have left the task unpolled.
            let kept = process.struck.max(process.stopped).max(world.scheduler.neglected());
            let idle = kept <= world.now().saturating_sub(took);
            let patience = CONNECT_TIMEOUT * 2 + world.request_timeout * 6;
            if idle && took > limit + patience {
                world.history.violated(format!("{step:?}: took {took:?}"));
            }
        });
    }

    fn check_nothing(&self, step: &Step, took: Duration) {
        if let How::For(limit) = step.how
            && took < limit
            && step.what.is_lock()
        {
            scheduler::with(|world| {
                world.history.violated(format!("{step:?}: nothing after {took:?}"));
            });
        }
    }

    async fn hold(&self, guard: Guard, count: usize, step: &Step) {
        let held = grants::register(self.process, guard);
        match step.inside {
            Inside::Put => {
                let value = format!("{}-{count}", self.number);
                held.put(&value).await;
            }
            Inside::Proclaim => held.proclaim(format!("{}-{count}", self.number).as_bytes()).await,
            Inside::Run => held.run(step.hold).await,
            // The loss of a deleted key must be reported, however late.
            Inside::WaitForLoss if step.evicted => {
                sleep(step.evicted_after).await;
                let longest = if held.evict() { LATEST } else { (step.hold * 20).min(LONGEST) };
                let _ = timeout(longest, held.lost()).await;
            }
            Inside::WaitForLoss => drop(timeout((step.hold * 20).min(LONGEST), held.lost()).await),
            Inside::WaitForRequest => drop(timeout(step.hold * 2, held.requested()).await),
            Inside::Nothing | Inside::Downgrade => {}
        }
        sleep(step.hold).await;
        let held = if step.inside == Inside::Downgrade {
            let Some(held) = held.downgrade(self.process).await else { return };
            held
        } else {
            held
        };
        if step.evicted {
            held.evict();
        }
        held.release(self.process, step.unlocks).await;
    }
}

/// Checks that an unsuccessful try met another client at this revision or later.
fn check_busy(step: &Step, first: u64) {
    let Some(dir) = step.what.dir().filter(|_| matches!(step.how, How::Try)) else { return };
    scheduler::with(|world| {
        if !world.server.was_anybody_in(&dir, first) {
            world.history.violated(format!("{step:?}: returned nothing, but {dir} was empty"));
        }
    });
}

/// Polls the future at most this often.
async fn polled<T>(future: &mut Pin<Box<dyn Future<Output = T> + Send>>, polls: u32) -> Option<T> {
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Starts a step's call. Each kind of call has its own box: a single future would have the size of
/// the largest.
fn take(client: Client, process: usize, uncontended: String, step: &Step) -> Taking {
    let how = step.how;
    match step.what.clone() {
        What::Mutex(name) => Box::pin(async move { lock(&client, &named(name), how).await }),
        What::Uncontended | What::Crowd(_) => {
            Box::pin(async move { lock(&client, &uncontended, how).await })
        }
        What::Read(name) => Box::pin(async move {
            let lock = client.rw_lock(named(name));
            let guard = match how {
                How::Wait => Some(lock.read().await?),
                How::Try => lock.try_read().await?,
                How::For(limit) => lock.read_timeout(limit).await?,
            };
            Ok(guard.map(Guard::Read))
        }),
        What::Write(name) => Box::pin(async move {
            let lock = client.rw_lock(named(name));
            let guard = match how {
                How::Wait => Some(lock.write().await?),
                How::Try => lock.try_write().await?,
                How::For(limit) => lock.write_timeout(limit).await?,
            };
            Ok(guard.map(Guard::Write))
        }),
        What::Permits(name, count, of) => Box::pin(async move {
            let known = settings::known(name);
            let of = known.map_or(of, |(number, _)| number);
            let semaphore = client.semaphore(named(name), of);
            let permit = match how {
                How::Wait => semaphore.acquire_many(count).await.map(Some),
                How::Try => semaphore.try_acquire_many(count).await,
                How::For(limit) => semaphore.acquire_many_timeout(count, limit).await,
            };
            if let Err(error) = &permit {
                settings::check(name, known, (count, of), error);
            }
            Ok(permit?.map(|permit| Guard::Permit(permit, of)))
        }),
        What::Election(name) => Box::pin(async move {
            let election = client.election(named(name));
            let leadership = match how {
                How::Wait => Some(election.campaign("me").await?),
                How::Try => election.try_campaign("me").await?,
                How::For(limit) => election.campaign_timeout("me", limit).await?,
            };
            Ok(leadership.map(Guard::Leader))
        }),
        What::All(names) => Box::pin(async move {
            let names = names.into_iter().map(named);
            let all = match how {
                How::Wait => Some(client.lock_all(names).await?),
                How::Try => client.try_lock_all(names).await?,
                How::For(limit) => client.lock_all_timeout(names, limit).await?,
            };
            Ok(all.map(Guard::All))
        }),
        What::RequestRelease(name) => Box::pin(async move {
            client.mutex(named(name)).request_release(REASON).await.map(|_| None)
        }),
        What::Queue(name) => Box::pin(async move {
            claims::check_entries(process, &client.mutex(named(name)).queue().await?, name);
            let holder = client.mutex(named(name)).holder().await?;
            claims::check_entries(process, holder.as_slice(), name);
            Ok(None)
        }),
        What::Leader(name) => Box::pin(async move {
            if let Some(leader) = client.election(named(name)).leader().await? {
                claims::check_leader(&leader, name);
            }
            Ok(None)
        }),
        What::WatchQueue(name) => Box::pin(async move {
            let mut watch = client.mutex(named(name)).watch_queue()?;
            while let Ok(Some(entries)) = timeout(SOON, watch.next()).await {
                claims::check_entries(process, &entries, name);
            }
            Ok(None)
        }),
        What::Observe(name) => Box::pin(async move {
            let mut observe = client.election(named(name)).observe()?;
            while let Ok(Some(leader)) = timeout(SOON, observe.next()).await {
                claims::check_leader(&leader, name);
            }
            Ok(None)
        }),
        What::SetPermits(name, permits) => Box::pin(async move {
            scheduler::with(|world| world.history.permits_set = true);
            let change = settings::begin(name);
            let set = client.semaphore(named(name), 3).set_permits(permits).await;
            settings::end(name, change, set.is_ok().then_some(permits));
            set.map(|()| None)
        }),
    }
}

async fn lock(client: &Client, name: &str, how: How) -> Result<Option<Guard>> {
    let mutex = client.mutex(name);
    let guard = match how {
        How::Wait => Some(mutex.lock().await?),
        How::Try => mutex.try_lock().await?,
        How::For(limit) => mutex.lock_timeout(limit).await?,
    };
    Ok(guard.map(Guard::Lock))
}
