//! The command line.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

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
    /// The workers alternate between this TTL, twice and three times as much.
    #[serde(default)]
    pub(crate) mixed_ttls: bool,
    /// Names of the kinds of faults.
    pub(crate) faults: Vec<String>,
    pub(crate) seed: u64,
    /// The processes record the library's metrics and logs.
    #[serde(default)]
    pub(crate) telemetry: bool,
    /// Most holders work for milliseconds only.
    #[serde(default)]
    pub(crate) brief: bool,
    #[serde(skip)]
    pub(crate) keep: bool,
    /// Servers that already run, in place of the run's own.
    #[serde(skip)]
    pub(crate) servers: Vec<SocketAddr>,
    /// The program that upgrades these servers.
    #[serde(skip)]
    pub(crate) upgrade: Option<PathBuf>,
    /// The file to which the run's trace is appended.
    #[serde(skip)]
    pub(crate) trace: Option<PathBuf>,
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

    /// The time after the last fault within which every waiter is granted, and all leftovers of
    /// dead clients are removed.
    ///
    /// A session that a fault has orphaned lives for another TTL, which a new leader restarts. A
    /// waiter that was not notified rechecks after 1.25 recheck intervals, and the recheck interval
    /// is the TTL here. The rest is for servers and a busy machine.
    pub(crate) fn bound(&self) -> Duration {
        self.longest_ttl() * 3 + Duration::from_secs(4)
    }
}

/// The number of different TTLs among the workers.
const MIX: usize = 3;

/// What to soak.
#[derive(Clone, Debug)]
pub(crate) struct Soak {
    pub(crate) backend: Backend,
    pub(crate) minutes: f64,
    pub(crate) out: PathBuf,
    /// Leaks on purpose, so that the soak has to fail.
    pub(crate) leak: bool,
}

pub(crate) enum Command {
    Torture(Run),
    Soak(Soak),
    /// The process of a soak.
    Soaked(Vec<String>),
    /// The number of pauses.
    Pauses(usize),
    /// A process that is stopped during the pauses.
    Sleeper(Vec<String>),
    /// A process of a run: its arguments come from the coordinator.
    Worker(Vec<String>),
    /// The folder of a history, and the file to which its trace is appended.
    Replay(PathBuf, Option<PathBuf>),
    Help,
}

pub(crate) const USAGE: &str = "\
Usage: torture --backend STORE [--primitive P] [--processes N] [--seconds S]
               [--ttl MS] [--same-ttls] [--faults LIST] [--seed K] [--telemetry]
               [--brief] [--keep] [--trace FILE] [--servers ADDRESS,... [--upgrade PROGRAM]]
       torture --replay FOLDER [--trace FILE]
       torture --soak MINUTES --backend etcd|zookeeper [--out FOLDER] [--leak]
       torture --pauses N

Runs N processes (default 5) that contend for three locks for S seconds (60), while
faults strike them and the servers. Then it checks the history of what they saw.
Sessions have a TTL of MS milliseconds (2000, or what the servers grant instead).
Some have twice or three times that, unless --same-ttls is given. A quarter of the
holders work for a part of the TTL or longer. With --brief one in 32 does, and there
are more locks and tasks, so that locks change hands more often. P is the
primitive: mutex (the default), rw, semaphore, election, lock-all (several mutexes
at once, in contention with single ones), or all. Exclusive holders also write into
the store under their guards.

STORE is etcd, zookeeper, postgres, postgres-standby (a primary that waits for its
standby), postgres-async (a primary that does not), pgbouncer (a PostgreSQL server
behind a pooler), mysql, galera (three MariaDB servers), sqlite, redis, redis-everysec
(may lose its last second), redis-wiped (occasionally loses everything), redis-replicas
(a primary and two replicas that confirm writes), redis-async (replicas that confirm
nothing), redis-sentinel (with three sentinels, which elect another primary),
redis-cluster (three primaries, two with a replica that confirms writes), valkey or
redlock (five nodes). Except for etcd and zookeeper, each run has its own servers in
containers, or an SQLite file in a folder, on a small disk in memory. Clients of
sentinels or a cluster get the servers' addresses, so network faults do not apply
there. Redlock has mutexes only, also with `all`. Neither order nor guarded writes are
checked for it. Its faults strike one or two nodes, or the network to two, three or all
of them.

The last line of the output is one JSON object. The exit status is 1 if an
invariant was violated that the store guarantees. The object contains the store's
guarantees as `Client::durability` returns them. The history of such a run is kept
in the folder that the object names, and --replay checks it again. With --keep it is
always kept. LIST is a comma-separated list of faults (default: all that apply to
the store). The part before a hyphen, such as kill, names several faults, and
all,-kill excludes them. The same seed K draws the same faults, not the same
history. With --telemetry the history includes the library's metrics and log, which
must report each grant, loss and release exactly once.

With --servers the run uses servers that already run, of etcd, zookeeper, postgres,
mysql or redis-sentinel (the last three addresses are those of the sentinels). Then
there are no faults of servers. A third into the run, PROGRAM is run once: it
upgrades the servers. The object contains the grants before, while and after it
runs, the longest time without a grant, and the errors that clients got. See
tests/roll.
With --trace the run's trace is appended to FILE: what happened to the mutexes' keys,
and what the workers did. The model replays it; see docs/design/model.md. It needs
etcd, whose order of changes the run then records.

With --soak one process uses locks in every way for MINUTES. The soak fails if its
memory, threads, files or tasks grow, or what the servers keep for it. Plot and
samples go to FOLDER (target/soak). With --leak the process leaks on purpose.

With --pauses processes with idle sessions on ZooKeeper are stopped N times for
about their TTL, and acquire a lock on waking. See docker/pauses -h.

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
    let (mut backend, mut soak, mut leak, mut replay) = (None, None, false, None);
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
            Arg::Long("brief") => run.brief = true,
            Arg::Long("keep") => run.keep = true,
            Arg::Long("servers") => {
                let list = parser.value()?.string()?;
                let servers =
                    list.split(',').map(str::parse::<SocketAddr>).collect::<Result<_, _>>();
                run.servers = servers.map_err(|error| format!("--servers: {error}"))?;
            }
            Arg::Long("upgrade") => run.upgrade = Some(parser.value()?.into()),
            Arg::Long("trace") => run.trace = Some(parser.value()?.into()),
            Arg::Long("replay") => replay = Some(parser.value()?.into()),
            Arg::Long("help") | Arg::Short('h') => return Ok(Command::Help),
            other => return Err(other.unexpected()),
        }
    }
    if let Some(folder) = replay {
        return Ok(Command::Replay(folder, run.trace));
    }
    run.backend = backend.ok_or("--backend is required")?;
    if !run.backend.queues() {
        run.primitive = match run.primitive {
            Primitive::Mutex | Primitive::All => Primitive::Mutex,
            other => {
                return Err(format!("{} supports only mutexes, not {other}", run.backend).into());
            }
        };
    }
    if run.upgrade.is_some() && run.servers.is_empty() {
        return Err("--upgrade requires --servers".into());
    }
    let mut kinds = Kind::parse(&faults, run.backend)?;
    kinds.retain(|kind| run.servers.is_empty() || !kind.is_of_servers());
    run.faults = kinds.iter().map(ToString::to_string).collect();
    if run.trace.is_some() && run.backend != Store::Etcd {
        return Err("--trace supports only etcd".into());
    }
    Ok(match soak {
        Some(minutes) => {
            let backend = run.backend.clustered();
            let backend = backend.ok_or("--soak supports only etcd and zookeeper")?;
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
