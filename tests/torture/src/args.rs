//! The command line.

use std::{path::PathBuf, time::Duration};

use distlock_testkit::{backend::Backend, store::Store};
use lexopt::{Arg, Parser, ValueExt};
use serde::{Deserialize, Serialize};

use crate::{fault::Kind, primitive::Primitive};

/// What to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) backend: Store,
    #[serde(default)]
    pub(crate) primitive: Primitive,
    pub(crate) processes: usize,
    pub(crate) seconds: u64,
    pub(crate) ttl_ms: u64,
    /// The workers have this TTL, twice and three times as much, by turns.
    #[serde(default)]
    pub(crate) mixed_ttls: bool,
    /// Names of the kinds.
    pub(crate) faults: Vec<String>,
    pub(crate) seed: u64,
    /// The processes write down what the library tells of itself.
    #[serde(default)]
    pub(crate) telemetry: bool,
    #[serde(skip)]
    pub(crate) keep: bool,
}

impl Run {
    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }

    /// The longest TTL that any worker has.
    pub(crate) fn longest_ttl(&self) -> Duration {
        (0..MIX).map(|number| self.ttl_of(number)).max().unwrap_or_default()
    }

    /// The TTL of a worker.
    pub(crate) fn ttl_of(&self, worker: usize) -> Duration {
        let times = if self.mixed_ttls { worker % MIX + 1 } else { 1 };
        self.ttl() * u32::try_from(times).unwrap_or(1)
    }

    /// Within this time after the last fault has healed everybody who waits is granted, and
    /// whatever dead clients left is gone.
    ///
    /// A session that a fault has orphaned lives for a TTL more, counted anew where a leader
    /// changed; a waiter that was told nothing looks again after 1.25 recheck intervals, which is
    /// the TTL here; the rest is for servers and a busy machine.
    pub(crate) fn bound(&self) -> Duration {
        self.longest_ttl() * 3 + Duration::from_secs(4)
    }
}

/// How many different TTLs there are among the workers.
const MIX: usize = 3;

/// What to soak.
#[derive(Clone, Debug)]
pub(crate) struct Soak {
    pub(crate) backend: Backend,
    pub(crate) minutes: f64,
    pub(crate) out: PathBuf,
    /// Leaks on purpose: then the soak has to fail.
    pub(crate) leak: bool,
}

pub(crate) enum Command {
    Torture(Run),
    Soak(Soak),
    /// The process of a soak.
    Soaked(Vec<String>),
    /// So many pauses.
    Pauses(usize),
    /// A process that is stopped in them.
    Sleeper(Vec<String>),
    /// A process of a run: its arguments come from the coordinator.
    Worker(Vec<String>),
    Replay(PathBuf),
    Help,
}

pub(crate) const USAGE: &str = "\
Usage: torture --backend STORE [--primitive P] [--processes N] [--seconds S]
               [--ttl MS] [--same-ttls] [--faults LIST] [--seed K] [--telemetry]
               [--keep]
       torture --replay FOLDER
       torture --soak MINUTES --backend etcd|zookeeper [--out FOLDER] [--leak]
       torture --pauses N

Runs N processes (default 5) that contend for three locks for S seconds (60) with
sessions of MS milliseconds (2000, or what the servers grant for it), and of twice
and three times that unless --same-ttls is given, while faults strike them and the
servers, and checks the history of what they saw. P is what
they contend for: mutex (the default), rw, semaphore, election, lock-all (several
mutexes at once, among those who want one), or all of them. An exclusive
holder writes into the store under its guard, too.

STORE is etcd, zookeeper, postgres, postgres-standby (a primary that waits for its
standby), postgres-async (one that does not), mysql, galera (three MariaDB servers),
sqlite, redis, redis-everysec (which may lose its last second), redis-wiped (which
loses everything now and then), redis-replicas (a primary and two that it waits for),
redis-async (it does not), redis-sentinel (with three sentinels, which elect another
primary), redis-cluster (three primaries, of which two have a replica that is waited
for), valkey or redlock (five nodes). All but etcd and zookeeper are of the run's
own: servers in containers, a file of SQLite's in a folder, each on a small disk in
memory. Who locks by sentinels or in a cluster is told where to go, so that the
faults of ways do not apply there. Redlock has mutexes alone, to which `all` comes there, and
neither order nor guarded writes are checked; its faults strike one or two nodes,
and the ways to two, three or all of them.

The last line of the output is one JSON object; the exit status is 1 if an
invariant was violated that the store promises to keep, in its own words: they
are in there, too. The history of such a run stays in the folder that is
named in it, to be checked again by --replay; with --keep it always stays. LIST
has the names of faults with commas in between (default: all that apply to the
store); what stands before a hyphen, as in kill, names several, and all,-kill
leaves those out. The same seed
K draws the same faults, not the same history. With --telemetry the history has
the library's own metrics and log, too, which have to tell each grant, loss and
release once.

With --soak one process uses locks in every way for so long, and fails if its
memory, threads, files or tasks grow, or what the servers keep for it. Plot and
samples go to FOLDER (target/soak). With --leak it has something to find.

With --pauses processes with idle sessions on ZooKeeper are stopped N times for
about as long as those live, and lock as they wake; see docker/pauses -h.

Faults:
";

pub(crate) fn parse() -> Result<Command, lexopt::Error> {
    let mut parser = Parser::from_env();
    let mut run = Run {
        processes: 5,
        seconds: 60,
        ttl_ms: 2000,
        mixed_ttls: true,
        seed: fastrand::u64(..1 << 32),
        ..Run::default()
    };
    let (mut backend, mut soak, mut leak) = (None, None, false);
    let mut faults = "all".to_owned();
    let mut out = PathBuf::from("target/soak");
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("worker") => return Ok(Command::Worker(rest(&mut parser)?)),
            Arg::Long("soaked") => return Ok(Command::Soaked(rest(&mut parser)?)),
            Arg::Long("sleeper") => return Ok(Command::Sleeper(rest(&mut parser)?)),
            Arg::Long("pauses") => return Ok(Command::Pauses(within(&mut parser, 1..=100_000)?)),
            Arg::Long("soak") => soak = Some(within(&mut parser, 0.1..=100_000.0)?),
            Arg::Long("out") => out = parser.value()?.into(),
            Arg::Long("leak") => leak = true,
            Arg::Long("backend") => backend = Some(parser.value()?.parse()?),
            Arg::Long("primitive") => run.primitive = parser.value()?.parse()?,
            Arg::Long("processes") => run.processes = within(&mut parser, 1..=100)?,
            Arg::Long("seconds") => run.seconds = within(&mut parser, 1..=86_400)?,
            Arg::Long("ttl") => run.ttl_ms = within(&mut parser, 100..=3_600_000)?,
            Arg::Long("same-ttls") => run.mixed_ttls = false,
            Arg::Long("faults") => faults = parser.value()?.string()?,
            Arg::Long("seed") => run.seed = parser.value()?.parse()?,
            Arg::Long("telemetry") => run.telemetry = true,
            Arg::Long("keep") => run.keep = true,
            Arg::Long("replay") => return Ok(Command::Replay(parser.value()?.into())),
            Arg::Long("help") | Arg::Short('h') => return Ok(Command::Help),
            other => return Err(other.unexpected()),
        }
    }
    run.backend = backend.ok_or("say which store, by --backend")?;
    if !run.backend.queues() {
        run.primitive = match run.primitive {
            Primitive::Mutex | Primitive::All => Primitive::Mutex,
            other => return Err(format!("{} has mutexes alone, no {other}", run.backend).into()),
        };
    }
    run.faults = Kind::parse(&faults, run.backend)?.iter().map(ToString::to_string).collect();
    Ok(match soak {
        Some(minutes) => {
            let backend = run.backend.clustered();
            let backend = backend.ok_or("the soak is for etcd and ZooKeeper")?;
            Command::Soak(Soak { backend, minutes, out, leak })
        }
        None => Command::Torture(run),
    })
}

fn rest(parser: &mut Parser) -> Result<Vec<String>, lexopt::Error> {
    parser.raw_args()?.map(|value| value.string()).collect()
}

fn within<T>(parser: &mut Parser, range: std::ops::RangeInclusive<T>) -> Result<T, lexopt::Error>
where
    T: PartialOrd + std::fmt::Debug + std::str::FromStr,
    T::Err: Into<Box<dyn std::error::Error + Send + Sync + 'static>>,
{
    let value = parser.value()?.parse()?;
    if range.contains(&value) {
        Ok(value)
    } else {
        Err(format!("{value:?} is not within {range:?}").into())
    }
}
