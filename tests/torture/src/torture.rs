//! A run: starts the workers, injects faults, checks what is left, and has the history checked.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use distlock_testkit::{Result, retry::retried, store::Store};
use tokio::{
    net::TcpListener,
    sync::{Mutex, RwLock},
    time::{Instant, sleep},
};

use crate::{
    args::Run,
    checker,
    cluster::Cluster,
    database,
    event::{self, Event, Journal, Promise},
    fault::Kind,
    fleet::Place,
    ledger::Ledger,
    nemesis::{Lane, Nemesis},
    observer::{self, Observer},
    primitive,
    register::Registers,
    report::Report,
    trace,
    worker::Task,
};

/// The interval between reads of the queues.
const INTERVAL: Duration = Duration::from_millis(50);

/// The time within which a client must be able to connect after an upgrade.
const SETTLING: Duration = Duration::from_secs(60);

pub(crate) fn torture(run: &Run) -> Result<Report> {
    let mut run = run.clone();
    fastrand::seed(run.seed);
    let number = fastrand::u32(..) ^ std::process::id();
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let folder =
        PathBuf::from(target).join(format!("torture/{}-{}-{number:08x}", run.backend, run.seed));
    std::fs::create_dir_all(&folder)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let namespace = database::namespace(run.backend.is_redis(), &format!("/torture-{number:08x}"));
    let done = runtime.block_on(conduct(&mut run, &folder, &namespace));
    // Tasks that are still running are abandoned.
    runtime.shutdown_background();
    done.map_err(|error| format!("{error} (the history is in {})", folder.display()))?;
    let records = event::read(&folder)?;
    if let Some(file) = &run.trace {
        trace::append(file, &run, &records)?;
    }
    let mut report = checker::check(&run, &records);
    if report.violations.is_empty() && !run.keep {
        std::fs::remove_dir_all(&folder)?;
    } else {
        report.history = Some(folder.display().to_string());
    }
    Ok(report)
}

async fn conduct(run: &mut Run, folder: &Path, namespace: &str) -> Result<()> {
    let journal = Journal::open(folder, "coordinator")?;
    let cluster = Arc::new(match run.servers.as_slice() {
        [] => Cluster::connect(run.backend).await?,
        servers => Cluster::join(run.backend, servers).await?,
    });
    let (ttl_ms, promise) = terms(run, &cluster, namespace).await?;
    run.ttl_ms = ttl_ms;
    journal.record(Event::Began { run: run.clone() });
    journal.record(Event::Promised(promise));
    let (before, _) = cluster.upkeep().await?;
    let observing = match run.trace {
        Some(_) => {
            let journal = Journal::open(folder, "observer")?;
            Some(tokio::spawn(Observer::new(Arc::clone(&cluster), journal, namespace).observe()))
        }
        None => None,
    };

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let register = listener.local_addr()?;
    let locks = primitive::locks(run.brief).collect();
    let ledger = Ledger::open(Arc::clone(&cluster), namespace, locks, &journal).await?;
    let ledger = Arc::new(ledger);
    let registers = Registers::new(Journal::open(folder, "registers")?, Arc::clone(&ledger));
    tokio::spawn(Arc::new(registers).serve(listener));
    let mut lanes = Vec::new();
    for number in 0..run.processes {
        let proxies = cluster.proxies(number).await?;
        let task = Task {
            folder: folder.to_owned(),
            number: Task::number(number),
            url: proxies.url() + &options(run),
            namespace: namespace.to_owned(),
            ttl: run.ttl_of(number),
            register,
            seed: fastrand::u64(..),
            store: run.backend,
            primitive: run.primitive,
            telemetry: run.telemetry,
            brief: run.brief,
        };
        let place = Place::start(task, journal.clone())?;
        lanes.push(Lane { place: Mutex::new(Some(place)), proxies });
    }
    let nemesis = Arc::new(Nemesis {
        lanes,
        cluster: Arc::clone(&cluster),
        journal: journal.clone(),
        strangers: Journal::open(folder, "strangers")?,
        namespace: namespace.to_owned(),
        ttl: run.ttl(),
        bound: run.bound(),
        peace: RwLock::new(()),
        faults: AtomicU64::new(0),
        recovers: run.upgrade.is_none(),
    });
    let recording =
        tokio::spawn(record_keys(Arc::clone(&cluster), journal.clone(), namespace.to_owned()));
    let progress = tokio::spawn(print_progress(Arc::clone(&nemesis), run.clone()));
    let kinds = Kind::parse(&run.faults.join(","), run.backend)?;
    let (start, time) = (Instant::now(), Duration::from_secs(run.seconds));
    let rage = nemesis.rage(&kinds, start + time);
    match &run.upgrade {
        None => rage.await?,
        Some(program) => {
            let upgrade = async {
                sleep(time / 3).await;
                nemesis.upgrade(program).await?;
                // The first requests to a new server may be slow.
                let terms = async || terms(run, &cluster, namespace).await;
                let (_, promise) = retried(SETTLING, terms).await?;
                journal.record(Event::Promised(promise));
                Result::Ok(())
            };
            tokio::try_join!(rage, upgrade)?;
        }
    }
    eprintln!("all faults have ended; waiting until all waiters are granted");
    nemesis.recover(false).await?;
    let mut finishing = tokio::task::JoinSet::new();
    for lane in &nemesis.lanes {
        let place = lane.place.lock().await.take().ok_or("no worker")?;
        finishing.spawn(place.finish(run.bound()));
    }
    while let Some(finished) = finishing.join_next().await {
        finished??;
    }
    // Late requests have lost their clients, and would keep connections open on the servers.
    nemesis.lanes.iter().for_each(|lane| lane.proxies.hang_up());
    recording.abort();
    progress.abort();
    ledger.close(&journal).await?;
    if run.backend.clustered().is_none() && run.backend.queues() {
        sweep(&cluster, namespace, run.longest_ttl()).await?;
    }
    let own = u64::from(observing.is_some());
    let what = left(&cluster, namespace, &before, own, run.bound()).await?;
    journal.record(Event::Left { what });
    if let Some(observing) = observing {
        observer::end(&cluster, namespace, observing).await?;
    }
    Ok(())
}

/// Returns the suffix of the URL of every client of a run.
fn options(run: &Run) -> String {
    match run.backend {
        // Nodes restart often, and each has to count again before the next one restarts.
        Store::Redlock => format!("?longest_ttl={}ms", run.longest_ttl().as_millis()),
        _ => String::new(),
    }
}

/// Returns the TTL that the servers grant, by which everything else is measured, and their
/// guarantees.
async fn terms(run: &Run, cluster: &Cluster, namespace: &str) -> Result<(u64, Promise)> {
    let url = cluster.url() + &options(run);
    // In a Redis Cluster each namespace may be on another server, with or without replicas.
    let builder = distlock::Client::builder(url).namespace(namespace).session_ttl(run.ttl());
    let client = builder.connect().await?;
    let (granted, durability) = (client.session_ttl(), client.durability().await?);
    client.close().await?;
    let failover = format!("{:?}", durability.failover).to_lowercase();
    let promise =
        Promise { exclusive: durability.exclusive, failover, reasons: durability.reasons };
    if granted != run.ttl() {
        eprintln!("the servers grant a TTL of {granted:?}");
    }
    Ok((granted.as_millis() as u64, promise))
}

/// Removes expired sessions on stores whose clients do that: a client connects, and stays until it
/// trusts the server's clock.
async fn sweep(cluster: &Cluster, namespace: &str, ttl: Duration) -> Result<()> {
    let builder = distlock::Client::builder(cluster.url()).namespace(namespace).session_ttl(ttl);
    let client = builder.connect().await?;
    let start = Instant::now();
    while start.elapsed() < ttl * 3 {
        client.mutex("swept").lock().await?.unlock().await?;
        sleep(INTERVAL).await;
    }
    Ok(client.close().await?)
}

/// Records the keys that appear in the queues.
async fn record_keys(cluster: Arc<Cluster>, journal: Journal, namespace: String) {
    let mut known = HashSet::new();
    loop {
        // A failed read is ignored, since there are faults.
        for place in cluster.places(&namespace).await.unwrap_or_default() {
            if known.insert(place.clone()) {
                let (key, created) = place;
                journal.record(Event::KeySeen { key, created });
            }
        }
        sleep(INTERVAL).await;
    }
}

/// Prints the progress.
async fn print_progress(nemesis: Arc<Nemesis>, run: Run) {
    let start = Instant::now();
    loop {
        sleep(Duration::from_secs(10)).await;
        let faults = nemesis.faults.load(std::sync::atomic::Ordering::SeqCst);
        eprintln!("{:4} s of {}: {faults} faults", start.elapsed().as_secs(), run.seconds);
    }
}

/// Returns what is left in the store a while after the last client has closed. `own`: the number of
/// the run's own watches.
async fn left(
    cluster: &Cluster,
    namespace: &str,
    before: &HashSet<String>,
    own: u64,
    time_limit: Duration,
) -> Result<Vec<String>> {
    let start = Instant::now();
    loop {
        let reading =
            async { Result::Ok((cluster.keys(namespace).await?, cluster.upkeep().await?)) };
        // On a busy machine the read may take too long.
        let (mut what, (sessions, watches)) = match reading.await {
            Err(error) if start.elapsed() > time_limit => return Err(error),
            Err(_) => {
                sleep(Duration::from_millis(100)).await;
                continue;
            }
            Ok(seen) => seen,
        };
        what.extend(sessions.difference(before).cloned());
        // A watch needs a session on ZooKeeper and a connection on etcd. Those of other clients may
        // come and go. All of this run's must end.
        if watches > own {
            what.push(format!("{watches} watches"));
        }
        if what.is_empty() || start.elapsed() > time_limit {
            return Ok(what);
        }
        sleep(Duration::from_millis(100)).await;
    }
}
