//! Runs one history: processes and callers start, faults occur, faults stop, and the result is
//! checked.

use std::{
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{
    backend::Backend,
    caller::{Abandoned, Calling},
    client::Client,
    error::Error,
    grants,
    history::History,
    holders,
    plan::{LONGEST, Plan},
    runtime::{
        Runtime,
        clock::{Instant, sleep, timeout},
        executor::Executor,
    },
    scheduler,
    server::{Contract, Key},
    session::Shared,
    store::SimulatedBackend,
    telemetry::Telemetry,
    trace::Trace,
    world::World,
};

pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a release that began after the faults stopped may take.
const RELEASED: Duration = Duration::from_secs(3);

/// How long a holder keeps its lock at most.
const LONGEST_HOLD: Duration = Duration::from_secs(9);

/// What to record of a history besides its violations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    Nothing,
    All,
    Trace,
}

/// Runs a plan and returns its history, the simulated time and the number of polls.
pub(crate) fn run(plan: &Plan, report: Report) -> (History, Duration, u64) {
    let director = plan.processes;
    let mut world = World::new(plan.seed, plan.contract, plan.processes + 1, report == Report::All);
    world.server.trace = (report == Report::Trace).then(Trace::default);
    world.server.worn = plan.worn;
    world.faults = plan.faults;
    world.undisturbed = plan.faults == 0 && plan.strikes.is_empty();
    (world.ttl, world.recheck) = (plan.ttl, plan.ttl);
    world.request_timeout = plan.request_timeout;
    world.busy = plan.callers.iter().map(|caller| caller.process).enumerate().collect();
    for (at, strike) in plan.strikes.clone() {
        world.scheduler.after(at, move |world| world.strike(strike));
    }
    #[cfg(feature = "redis")]
    if plan.contract == Contract::Redis {
        world.start_redis(plan.everysec);
    }
    for replica in 1..3 {
        let phase = world.ttl / 8 * u32::try_from(replica).unwrap_or(1);
        world.scheduler.after(phase, move |world| world.report(replica));
    }
    scheduler::start(world);
    let (clients, abandoned) =
        (Arc::<Mutex<Vec<(usize, Client)>>>::default(), Abandoned::default());
    for process in 0..plan.processes {
        let callers: Vec<_> = plan
            .callers
            .iter()
            .enumerate()
            .filter(|(_, caller)| caller.process == process)
            .map(|(number, caller)| (number, caller.steps.clone()))
            .collect();
        if callers.is_empty() {
            continue;
        }
        let (plan, clients, abandoned) = (plan.clone(), Arc::clone(&clients), abandoned.clone());
        scheduler::spawn(process, "main", async move {
            let client = connect(&plan, process).await;
            clients.lock().expect("not poisoned").push((process, client.clone()));
            for (number, steps) in callers {
                let calling = Calling {
                    number,
                    process,
                    client: client.clone(),
                    abandoned: abandoned.clone(),
                };
                scheduler::spawn(process, "caller", calling.run(steps));
            }
        });
    }
    let done = Arc::new(Mutex::new(false));
    // If the world fails, the remaining futures are dropped while it still exists.
    let rest = (abandoned.clone(), Arc::clone(&clients));
    let director_done = Arc::clone(&done);
    let plan = plan.clone();
    scheduler::spawn(director, "director", async move {
        direct(&plan, &clients, &abandoned).await;
        *director_done.lock().expect("not poisoned") = true;
    });
    scheduler::run(|_| *done.lock().expect("not poisoned"));
    rest.0.discard(true);
    rest.1.lock().expect("not poisoned").clear();
    let mut world = scheduler::end();
    world.history.trace = world.server.trace.take();
    let (time, polls) = (world.now(), world.scheduler.polls);
    (world.history, time, polls)
}

#[cfg_attr(not(feature = "redis"), allow(unused_variables))]
fn backend(process: usize, contract: Contract, request_timeout: Duration) -> Arc<dyn Backend> {
    match contract {
        #[cfg(feature = "redis")]
        Contract::Redis => Arc::new(crate::redis::backend(request_timeout)),
        _ => Arc::new(SimulatedBackend { process, contract }),
    }
}

async fn connect(plan: &Plan, process: usize) -> Client {
    loop {
        let (ttl, recheck, request_timeout) =
            scheduler::with(|world| (world.ttl, world.recheck, world.request_timeout));
        let shared = Shared {
            backend: backend(process, plan.contract, request_timeout),
            runtime: Runtime::of(Executor::in_process(process)),
            namespace: "/sim".into(),
            ttl,
            owner: format!("client{process}"),
            connect_timeout: CONNECT_TIMEOUT,
            request_timeout,
            recheck_interval: recheck,
            draining: Default::default(),
            telemetry: Telemetry::default(),
        };
        if let Ok(client) = Client::open(shared).await {
            return client;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Closes a client while it is in use, and checks that `Ok` means closed.
fn close_early(clients: &Mutex<Vec<(usize, Client)>>, process: usize) {
    let clients = clients.lock().expect("not poisoned");
    let Some((_, client)) = clients.iter().find(|(of, _)| *of == process) else { return };
    let client = client.clone();
    scheduler::spawn(process, "closing", async move {
        for _ in 0..2 {
            let closed = client.close().await;
            scheduler::with(|world| {
                world.history.coverage.count(format!("close {}", closed.is_ok()));
                let of = |key: &Rc<Key>| world.server.sessions.get(&key.session);
                let own = |key: &&Rc<Key>| of(key).is_some_and(|of| of.process == process);
                let left = world.server.now.keys().find(own).map(|key| Arc::clone(&key.name));
                // Sessions that were lost and could not be ended within two TTLs are left to the
                // servers, which keep them for longer after a change of leader, and on Redis until
                // another client removes them.
                let by_others = world.server.contract == Contract::Redis && !world.undisturbed;
                let another = world.cut[0] > Duration::ZERO || by_others;
                if let Some(left) = left.filter(|_| closed.is_ok() && !another) {
                    let what = format!("client{process} is closed, but {left} still exists");
                    world.history.violated(what);
                }
            });
        }
    });
}

/// Checks that a client keeps no state of finished calls.
fn check_maps(client: &Client) {
    let shown = format!("{client:?}");
    for empty in ["held: 0,", "awaited: 0,", "queues: {}", "paths: {}"] {
        let name = empty.split(':').next().unwrap_or_default();
        let all = shown.matches(&format!("{name}: ")).count();
        if all != shown.matches(empty).count() {
            scheduler::with(|world| {
                let at = shown.find(&format!("{name}: ")).unwrap_or_default();
                let part: String = shown.chars().skip(at).take(200).collect();
                world.history.violated(format!("a client still has state: {part}"));
            });
        }
    }
}

/// The number of unfinished callers. Callers of dead processes count as finished.
fn busy() -> usize {
    scheduler::with(|world| world.busy.len())
}

async fn until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while !done() {
        if Instant::now() >= end {
            return false;
        }
        sleep(Duration::from_millis(100)).await;
    }
    true
}

async fn direct(plan: &Plan, clients: &Mutex<Vec<(usize, Client)>>, abandoned: &Abandoned) {
    let mut closing = plan.closing;
    until(LONGEST, || {
        holders::check_evicted();
        if let Some((process, at)) = closing
            && scheduler::now() >= at
        {
            closing = None;
            close_early(clients, process);
        }
        busy() == 0
    })
    .await;
    scheduler::heal();
    abandoned.discard(false);
    let bound = scheduler::with(|world| grants::bound(world.ttl, world.recheck));
    // Each holder keeps its lock for its full time; then the next waiter is granted.
    let done = loop {
        let turns = holders::turns();
        let moved = until(bound + LONGEST_HOLD, || {
            holders::check_evicted();
            busy() == 0 || holders::turns() != turns
        });
        if !moved.await || busy() == 0 {
            break busy() == 0;
        }
    };
    if !done {
        scheduler::with(|world| {
            let keys: Vec<_> = world.server.now.keys().map(|key| key.name.to_string()).collect();
            let doing = format!(
                "not finished {bound:?} after the last fault: {:?} {:?}; keys: {keys:?}",
                world.busy, world.doing
            );
            world.history.violated(doing);
        });
        return;
    }
    abandoned.discard(true);
    let clients = std::mem::take(&mut *clients.lock().expect("not poisoned"));
    // Dropped calls clean up by themselves. A delayed request may still create a key; the next
    // recheck, or the one after it, finds that key.
    let late =
        scheduler::with(|world| world.latest.saturating_sub(world.now()) + world.recheck * 5 / 2);
    sleep(RELEASED + late).await;
    if plan.contract == Contract::Redis {
        // On Redis, a dead client's keys are removed by clients that arrive later.
        let janitor = connect(plan, plan.processes).await;
        let held = janitor.mutex("janitor").lock().await;
        sleep(bound).await;
        drop(held);
        drop(janitor.close().await);
    }
    scheduler::with(|world| {
        let left: Vec<_> = world.server.now.keys().map(|key| key.name.to_string()).collect();
        if !left.is_empty() {
            world.history.violated(format!("left behind: {left:?}"));
        }
    });
    for (process, client) in &clients {
        // Only for some seeds: the debug output is long.
        if plan.seed.is_multiple_of(16) && !scheduler::with(|world| world.processes[*process].dead)
        {
            check_maps(client);
        }
    }
    for (process, client) in clients {
        if scheduler::with(|world| world.processes[process].dead) {
            continue;
        }
        match timeout(bound, client.close()).await {
            // A session that was lost earlier and could not be ended may still exist.
            Ok(
                Ok(())
                | Err(Error::Unavailable { .. } | Error::Denied { .. } | Error::Backend { .. }),
            ) => {}
            other => scheduler::with(|world| {
                world.history.violated(format!("close of client{process}: {other:?}"));
            }),
        }
    }
    sleep(bound).await;
    scheduler::with(|world| {
        for process in 0..plan.processes {
            let left = world.scheduler.tasks_of(process);
            if !left.is_empty() {
                world.history.violated(format!("tasks of client{process}: {left:?}"));
            }
        }
        let late: Vec<_> = world
            .history
            .unwritten
            .iter()
            .filter(|value| {
                world.server.written.iter().any(|(_, put, _)| **put == value.as_bytes())
            })
            .cloned()
            .collect();
        if !late.is_empty() {
            world.history.violated(format!("refused as lost, and applied: {late:?}"));
        }
    });
}
