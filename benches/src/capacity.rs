//! The cost of many sessions, each with its own lock, for one server and its clients.

use std::time::Duration;

use distlock_testkit::clock::now;
use tokio::time::sleep;

use crate::{
    Result,
    args::{Bench, Capacity},
    backend::Backend,
    counters::Counters,
    link::Process,
    machine::Machine,
    slice::Slice,
    statistics::{quantile, round},
    subject::TTL,
    task::{Role, Sessions, Subject, Task, Work},
    usage::{cpu_of, memory_of},
};

/// The maximum number of sessions per process: within the usual limit of open files.
const PER_PROCESS: usize = 500;
/// The interval of the additional client: it is no significant load.
const EVERY_MS: u64 = 50;
/// Requests of an uncontended lock and unlock.
const PER_PAIR: f64 = 2.0;
/// Used only here, because the store contains nothing else.
const NAMESPACE: &str = "/capacity";

const HEAD: &str = "\
| store | sessions | all open after, s | keepalives/s | all requests/s | server: CPU, % of a core \
| its memory, MB (before) | clients: CPU, % of a core | memory of a session, KB \
| lock + unlock, median / p99, ms | locks lost |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|";

/// The results.
struct Seen {
    opened: Duration,
    /// While all locks were held.
    time: Duration,
    counted: Counters,
    server_cpu: u64,
    /// Resident memory in KiB, without and with the sessions.
    server_memory: (u64, u64),
    /// Of each process with sessions.
    clients: Vec<Slice>,
    /// Of the additional client.
    paced: Slice,
}

/// Returns `true` if no lock was lost.
pub(crate) async fn look(bench: &Bench, capacity: Capacity) -> Result<bool> {
    let [backend] = bench.backends[..] else { return Err("one store at a time".into()) };
    if backend.is_relational() {
        return Err("renewals are counted only on etcd and ZooKeeper".into());
    }
    let machine = Machine::look(bench).await?;
    let seen = measure(backend, bench.single(backend), capacity).await?;
    println!("{}\n\n{HEAD}\n{}", machine.line(), seen.row(backend, capacity.sessions));
    let errors: Vec<_> = seen.all().filter_map(|slice| slice.error.as_deref()).collect();
    errors.iter().for_each(|error| eprintln!("bench: {error}"));
    Ok(errors.is_empty())
}

async fn measure(backend: Backend, servers: &[String], capacity: Capacity) -> Result<Seen> {
    let mut processes = Vec::new();
    for from in (0..capacity.sessions).step_by(PER_PROCESS) {
        processes.push(Process::start(&Role::Sessions(Sessions {
            backend,
            servers: servers.to_vec(),
            namespace: NAMESPACE.to_owned(),
            from,
            count: PER_PROCESS.min(capacity.sessions - from),
        }))?);
    }
    for process in &mut processes {
        process.mark().await?;
    }
    let before = memory_of(capacity.server)?.0;

    let start = now();
    all(&mut processes, "open").await?;
    let opened = Duration::from_nanos(now() - start);
    let mut paced = Process::start(&Role::Subject(Task {
        backend,
        subject: Subject::Distlock,
        servers: servers.to_vec(),
        namespace: NAMESPACE.to_owned(),
        work: Work::Paced { every_ms: EVERY_MS },
    }))?;
    paced.mark().await?;
    // Background work of the last grants ends meanwhile.
    sleep(TTL).await;

    let busy = cpu_of(capacity.server)?;
    let counters = Counters::read(backend, servers).await?;
    let start = now();
    for process in processes.iter_mut().chain([&mut paced]) {
        process.answer("measure").await?;
        process.mark().await?;
    }
    sleep(Duration::from_secs(capacity.seconds)).await;
    let counted = Counters::read(backend, servers).await? - counters;
    let time = Duration::from_nanos(now() - start);
    let server_cpu = cpu_of(capacity.server)? - busy;
    let server_memory = (before, memory_of(capacity.server)?.0);

    let mut clients = Vec::new();
    for process in processes.iter_mut().chain([&mut paced]) {
        process.answer("enough").await?;
        clients.push(process.done().await?);
    }
    let paced_seen = clients.pop().ok_or("the additional client is missing")?;
    for process in processes.into_iter().chain([paced]) {
        process.finish().await?;
    }
    Ok(Seen { opened, time, counted, server_cpu, server_memory, clients, paced: paced_seen })
}

/// Sends an order to all processes, and waits until each has executed it.
async fn all(processes: &mut [Process], order: &str) -> Result<()> {
    for process in &mut *processes {
        process.answer(order).await?;
    }
    for process in processes {
        process.mark().await?;
    }
    Ok(())
}

impl Seen {
    fn all(&self) -> impl Iterator<Item = &Slice> {
        self.clients.iter().chain([&self.paced])
    }

    fn row(&self, backend: Backend, sessions: usize) -> String {
        let seconds = self.time.as_secs_f64();
        let of_a_core = |nanoseconds: u64| round(nanoseconds as f64 / 1e7 / seconds);
        let of_pairs = self.paced.pairs as f64 * PER_PAIR;
        let renewals = match backend {
            Backend::Etcd => self.counted.keepalives,
            _ => self.counted.updates - of_pairs,
        };
        let (before, with) = self.server_memory;
        let sum = |field: fn(&Slice) -> u64| self.clients.iter().map(field).sum::<u64>();
        let grown = sum(|slice| slice.rss) as f64 - sum(|slice| slice.rss_before) as f64;
        let both = self.paced.lock.iter().zip(&self.paced.unlock);
        let mut pairs: Vec<_> = both.map(|(lock, unlock)| (lock + unlock) as f64 / 1e6).collect();
        let mut pair = |share| quantile(&mut pairs, share).map_or("–".to_owned(), round);
        let cells = [
            backend.to_string(),
            sessions.to_string(),
            round(self.opened.as_secs_f64()),
            round(renewals / seconds),
            round((self.counted.requests - of_pairs) / seconds),
            of_a_core(self.server_cpu),
            format!("{} ({})", with / 1024, before / 1024),
            of_a_core(sum(|slice| slice.cpu)),
            if sessions == 0 { "–".to_owned() } else { round(grown / sessions as f64) },
            format!("{} / {}", pair(0.5), pair(0.99)),
            sum(|slice| slice.errors).to_string(),
        ];
        format!("| {} |", cells.join(" | "))
    }
}
