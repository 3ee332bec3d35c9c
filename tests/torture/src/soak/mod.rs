//! A soak: one process does all that a program does with locks, for long, while its network fails now and then; nothing of what it uses may grow.

mod plot;
mod verdict;
mod workload;

use std::{
    collections::{BTreeMap, HashSet},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use serde::Serialize;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::{Instant, MissedTickBehavior, interval, sleep, sleep_until},
};

use crate::{
    args::{Backend, Soak},
    cluster::{Cluster, Result},
    proxy::{Framing, Mode, Proxies},
};
use verdict::{MEASURES, Verdict, judge};

pub(crate) use workload::run as work;

/// Between two faults.
const CALM: Duration = Duration::from_secs(55);

/// What a soak came to: its last line.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    backend: Backend,
    minutes: f64,
    /// Locks taken and released.
    locks: u64,
    faults: u64,
    pub(crate) flat: bool,
    measures: BTreeMap<&'static str, Option<Verdict>>,
    plot: String,
    samples: String,
}

/// What the workload says of itself.
#[derive(Debug, Default)]
struct Told {
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
    let framing = if soak.backend == Backend::Etcd { Framing::Http2 } else { Framing::Jute };
    let proxies = Proxies::start((cluster.scheme(), &cluster.servers, framing)).await;
    let namespace = format!("/soak-{:08x}", fastrand::u32(..));
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--soaked", &proxies.url(), &namespace, if soak.leak { "leak" } else { "no-leak" }])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let told = Arc::new(Told::default());
    let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let listener = Arc::clone(&told);
    tokio::spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            let mut numbers = line.split(' ').map_while(|word| word.parse().ok());
            listener.tasks.store(numbers.next().unwrap_or_default(), Relaxed);
            listener.locks.store(numbers.next().unwrap_or_default(), Relaxed);
        }
    });

    let time = Duration::from_secs_f64(soak.minutes * 60.0);
    let pause = (time / 360).clamp(Duration::from_millis(500), Duration::from_secs(10));
    let (start, faults) = (Instant::now(), AtomicU64::new(0));
    let mut series = vec![Vec::new(); MEASURES.len()];
    tokio::select! {
        sampled = sample(&cluster, &namespace, &others, &mut child, &told, pause, start + time, &mut series) => sampled?,
        () = trouble(&proxies, &faults) => {}
    }
    child.kill().await?;

    let judged = series.iter().zip(MEASURES).map(|(samples, measure)| judge(samples, measure.tolerance));
    let verdicts: Vec<_> = judged.collect();
    let path = |extension| soak.out.join(format!("{:?}.{extension}", soak.backend).to_lowercase());
    let (drawn, table): (PathBuf, PathBuf) = (path("svg"), path("csv"));
    let title = format!("{:?}: {:.0} minutes, {} faults", soak.backend, soak.minutes, faults.load(Relaxed));
    plot::draw(&drawn, &title, pause.as_secs_f64(), &series, &verdicts)?;
    write(&table, pause, &series)?;
    Ok(Report {
        backend: soak.backend,
        minutes: soak.minutes,
        locks: told.locks.load(Relaxed),
        faults: faults.load(Relaxed),
        // A run that is too short to tell has not shown that nothing grows.
        flat: verdicts.iter().all(|verdict| verdict.is_some_and(|verdict| verdict.flat)),
        measures: MEASURES.iter().map(|measure| measure.name).zip(verdicts).collect(),
        plot: drawn.display().to_string(),
        samples: table.display().to_string(),
    })
}

/// Every minute something is wrong with the network: all connections end, or nothing passes for so long that the sessions are lost.
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

#[allow(clippy::too_many_arguments)] // it is a loop of its caller
async fn sample(
    cluster: &Cluster,
    namespace: &str,
    others: &HashSet<String>,
    child: &mut Child,
    told: &Told,
    pause: Duration,
    end: Instant,
    series: &mut [Vec<f64>],
) -> Result<()> {
    let mut ticks = interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut said = Instant::now();
    while Instant::now() < end {
        ticks.tick().await;
        if let Some(status) = child.try_wait()? {
            return Err(format!("the soaked process has ended: {status}").into());
        }
        let id = child.id().ok_or("the soaked process has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let field = |name: &str| -> Result<f64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such field")?;
            Ok(line.trim_start_matches(':').split_whitespace().next().ok_or("no number")?.parse()?)
        };
        let files = std::fs::read_dir(format!("/proc/{id}/fd"))?.count();
        let asked = async {
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>((cluster.upkeep().await?, cluster.keys(namespace).await?))
        };
        // The servers may be busy for a moment: that is one sample less.
        let ((sessions, watches), keys) = match asked.await {
            Ok(answers) => answers,
            Err(error) => {
                eprintln!("no sample: {error}");
                continue;
            }
        };
        let (sessions, keys) = (sessions.difference(others).count(), keys.len());
        let tasks = told.tasks.load(Relaxed);
        let sample = [
            field("VmRSS")?,
            field("Threads")?,
            files as f64,
            tasks as f64,
            watches as f64,
            sessions as f64,
            keys as f64,
        ];
        for (series, value) in series.iter_mut().zip(sample) {
            series.push(value);
        }
        if said.elapsed() > Duration::from_secs(60) {
            said = Instant::now();
            let left = (end - said).as_secs() / 60;
            eprintln!("{left} minutes to go, {} locks: {sample:?}", told.locks.load(Relaxed));
        }
    }
    sleep_until(end).await;
    Ok(())
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
