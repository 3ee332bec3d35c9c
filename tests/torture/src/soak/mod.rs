//! A soak: one process uses locks in all ways for long, while its network fails from time to time.
//! None of its resources may grow.

mod plot;
mod verdict;
mod workload;

use std::{
    collections::{BTreeMap, HashSet},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use distlock_testkit::{Result, backend::Backend, child::Child, proxies::Proxies, proxy::Mode};
use serde::Serialize;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use crate::{args::Soak, cluster::Cluster};
use verdict::{MEASURES, Verdict, judge};

pub(crate) use workload::run as work;

/// The time between two faults.
const CALM: Duration = Duration::from_secs(55);

/// The longest time without a lock. A fault costs all sessions, and the machine may be busy.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// The result of a soak: its last line.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    backend: Backend,
    minutes: f64,
    /// Locks acquired and released.
    locks: u64,
    faults: u64,
    pub(crate) flat: bool,
    measures: BTreeMap<&'static str, Option<Verdict>>,
    plot: String,
    samples: String,
}

/// The counts that the workload reports.
#[derive(Debug, Default)]
struct Counts {
    tasks: AtomicU64,
    locks: AtomicU64,
}

pub(crate) fn soak(soak: &Soak) -> Result<Report> {
    std::fs::create_dir_all(&soak.out)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(conduct(soak));
    runtime.shutdown_background();
    done
}

async fn conduct(soak: &Soak) -> Result<Report> {
    let cluster = Cluster::connect(soak.backend).await?;
    let (others, _) = cluster.upkeep().await?;
    let proxies = Proxies::start(soak.backend, &cluster.servers).await;
    let mut subject = Subject::start(&proxies.url(), soak.leak, others)?;

    let time = Duration::from_secs_f64(soak.minutes * 60.0);
    let pause = (time / 360).clamp(Duration::from_millis(500), Duration::from_secs(10));
    let faults = AtomicU64::new(0);
    let series = tokio::select! {
        series = subject.observe(&cluster, pause, Instant::now() + time) => series?,
        () = trouble(&proxies, &faults) => return Err("the network faults ended".into()),
    };
    let (locks, faults) = (subject.counts.locks.load(Relaxed), faults.load(Relaxed));
    subject.process.kill().await?;
    if locks == 0 {
        return Err("no lock was acquired, so nothing could grow".into());
    }

    let judged =
        series.iter().zip(MEASURES).map(|(samples, measure)| judge(samples, measure.tolerance));
    let verdicts: Vec<_> = judged.collect();
    let path = |extension| soak.out.join(format!("{:?}.{extension}", soak.backend).to_lowercase());
    let (drawn, table): (PathBuf, PathBuf) = (path("svg"), path("csv"));
    let title = format!("{:?}: {:.0} minutes, {faults} faults", soak.backend, soak.minutes);
    plot::draw(&drawn, &title, pause.as_secs_f64(), &series, &verdicts)?;
    write(&table, pause, &series)?;
    Ok(Report {
        backend: soak.backend,
        minutes: soak.minutes,
        locks,
        faults,
        // A run that is too short proves nothing.
        flat: verdicts.iter().all(|verdict| verdict.is_some_and(|verdict| verdict.flat)),
        measures: MEASURES.iter().map(|measure| measure.name).zip(verdicts).collect(),
        plot: drawn.display().to_string(),
        samples: table.display().to_string(),
    })
}

/// Every minute the network fails: all connections end, or nothing passes until the sessions are
/// lost.
async fn trouble(proxies: &Proxies, faults: &AtomicU64) {
    loop {
        sleep(CALM).await;
        let fault = faults.fetch_add(1, Relaxed);
        if fault.is_multiple_of(2) {
            proxies.hang_up();
        } else {
            proxies.set(&Mode::Blackhole);
            sleep(workload::TTL * 3 / 2).await;
            proxies.set(&Mode::Pass);
        }
    }
}

/// The process under test.
struct Subject {
    process: Child,
    namespace: String,
    counts: Arc<Counts>,
    /// Sessions that existed before.
    others: HashSet<String>,
}

impl Subject {
    fn start(url: &str, leak: bool, others: HashSet<String>) -> Result<Self> {
        let usual = format!("/soak-{:08x}", fastrand::u32(..));
        let namespace = crate::database::namespace(url.starts_with("redis"), &usual);
        let leak = if leak { "leak" } else { "no-leak" };
        let mut process = Child::start(Child::again()?.args(["--soaked", url, &namespace, leak]))?;
        let counts = Arc::new(Counts::default());
        let listener = Arc::clone(&counts);
        process.listen(move |line| {
            let mut numbers = line.split(' ').map_while(|word| word.parse().ok());
            listener.tasks.store(numbers.next().unwrap_or_default(), Relaxed);
            listener.locks.store(numbers.next().unwrap_or_default(), Relaxed);
            Ok(())
        });
        Ok(Self { process, namespace, counts, others })
    }

    /// Returns a series of samples for each measure.
    async fn observe(
        &mut self,
        cluster: &Cluster,
        pause: Duration,
        end: Instant,
    ) -> Result<Vec<Vec<f64>>> {
        let mut series = vec![Vec::new(); MEASURES.len()];
        let mut ticks = interval(pause);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut reported = Instant::now();
        let (mut locks, mut acquired) = (0, Instant::now());
        while Instant::now() < end {
            ticks.tick().await;
            let own = self.own()?;
            // The resources of a process that does nothing do not grow.
            let count = self.counts.locks.load(Relaxed);
            if count != locks {
                (locks, acquired) = (count, Instant::now());
            } else if acquired.elapsed() > LONGEST_WAIT {
                return Err(format!("no lock was acquired for {LONGEST_WAIT:?}").into());
            }
            // The servers may be busy for a moment, which costs one sample.
            let kept = match self.kept(cluster).await {
                Ok(kept) => kept,
                Err(error) => {
                    eprintln!("no sample: {error}");
                    continue;
                }
            };
            let sample = own.into_iter().chain(kept);
            series.iter_mut().zip(sample).for_each(|(series, value)| series.push(value));
            if reported.elapsed() > Duration::from_secs(60) {
                reported = Instant::now();
                let newest: Vec<_> = series.iter().filter_map(|series| series.last()).collect();
                let left = (end - reported).as_secs() / 60;
                eprintln!("{left} minutes to go, {locks} locks: {newest:?}");
            }
        }
        Ok(series)
    }

    /// Returns the resources of the process.
    fn own(&mut self) -> Result<[f64; 4]> {
        if let Some(status) = self.process.ended()? {
            return Err(format!("the soaked process has ended: {status}").into());
        }
        let id = self.process.id()?.as_raw_nonzero();
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let field = |name: &str| -> Result<f64> {
            let line =
                status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such field")?;
            let number = line.trim_start_matches(':').split_whitespace().next();
            Ok(number.ok_or("no number")?.parse()?)
        };
        let files = std::fs::read_dir(format!("/proc/{id}/fd"))?.count();
        Ok([
            field("VmRSS")?,
            field("Threads")?,
            files as f64,
            self.counts.tasks.load(Relaxed) as f64,
        ])
    }

    /// Returns what the servers keep for the process.
    async fn kept(&self, cluster: &Cluster) -> Result<[f64; 3]> {
        let (sessions, watches) = cluster.upkeep().await?;
        let keys = cluster.keys(&self.namespace).await?.len();
        Ok([watches as f64, sessions.difference(&self.others).count() as f64, keys as f64])
    }
}

fn write(path: &Path, pause: Duration, series: &[Vec<f64>]) -> Result<()> {
    let names: Vec<_> = MEASURES.iter().map(|measure| measure.name).collect();
    let mut text = format!("seconds,{}\n", names.join(","));
    for index in 0..series[0].len() {
        let values: Vec<_> = series.iter().map(|series| series[index].to_string()).collect();
        text += &format!("{:.1},{}\n", pause.as_secs_f64() * index as f64, values.join(","));
    }
    Ok(std::fs::write(path, text)?)
}
