//! The command line.

use std::{collections::BTreeMap, path::PathBuf};

use distlock_testkit::store;
use lexopt::{Arg, Parser, ValueExt};

use crate::{
    apart::Between,
    backend::{Backend, named},
    task::Role,
    workload::Workload,
};

#[derive(Clone, Debug, Default)]
pub(crate) struct Bench {
    pub(crate) quick: bool,
    pub(crate) check: bool,
    pub(crate) only: Vec<Workload>,
    pub(crate) backends: Vec<Backend>,
    pub(crate) repeats: usize,
    pub(crate) out: PathBuf,
    /// Another build of this program, whose library is the baseline.
    pub(crate) beside: Option<PathBuf>,
    /// The number of slices of each line, for both builds together.
    pub(crate) slices: usize,
    pub(crate) capacity: Option<Capacity>,
    /// The numbers of idle clients next to two active ones.
    pub(crate) idle: Vec<usize>,
    /// URLs of one store, to be compared.
    pub(crate) ways: Vec<String>,
    /// The number of names that were used once, on a database with a long history. 0: not measured.
    pub(crate) names: u64,
    /// The container with the peers in other languages.
    pub(crate) peers: Option<String>,
    /// The addresses of the single nodes.
    pub(crate) singles: BTreeMap<Backend, Vec<String>>,
    pub(crate) clusters: BTreeMap<Backend, Vec<String>>,
    /// The delay between the servers of the clusters, if any.
    pub(crate) between: Option<Between>,
    /// The process IDs of the single nodes, if known.
    pub(crate) processes: BTreeMap<Backend, u32>,
}

/// The load of one server with this number of sessions, for this time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    pub(crate) sessions: usize,
    pub(crate) seconds: u64,
    /// The process ID of the server.
    pub(crate) server: u32,
}

impl Bench {
    pub(crate) fn single(&self, backend: Backend) -> &[String] {
        self.singles.get(&backend).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn cluster(&self, backend: Backend) -> &[String] {
        self.clusters.get(&backend).map_or(&[], Vec::as_slice)
    }
}

pub(crate) enum Command {
    /// Runs all measurements.
    Bench(Box<Bench>),
    /// Only draws the plots of an earlier run.
    Draw(PathBuf),
    /// Only runs the proxies of a cluster's servers, for these addresses.
    Carry { servers: Vec<String>, between: Between },
    /// A process that the bench started.
    Role(Role),
    /// Prints the usage.
    Help,
}

pub(crate) const USAGE: &str = "\
Usage: bench [OPTIONS] [--etcd ADDRESS] [--zookeeper ADDRESS] [--postgres ADDRESS]
             [--mysql ADDRESS] [--redis ADDRESS] [--redlock ADDRESS,...] [--sqlite PATH]
             [--etcd-cluster ADDRESS,... --zookeeper-cluster ADDRESS,...]
             [--between 0.5ms]
             [--etcd-process PID] [--zookeeper-process PID] [...]
             [--peers CONTAINER]

The options name the servers to measure on, and their processes, whose processor
time is then reported; docker/bench starts them. OPTIONS are those of docker/bench.

The container runs the image of docker/bench.d, on this machine's network. Without
it, Go's and Curator's locks are left out.

--beside OLD, another build of this program, only compares the two libraries, in
--slices N of each line; see docker/compare.

--between TIME declares that a message between two servers of a cluster and its
reply take this much longer. With --carry ADDRESS,... as well, the program only
runs proxies for these addresses, prints the proxies' addresses, and adds this
time; see docker/cluster.sh.

--draw FOLDER only draws the plots of a run with its results in FOLDER.

--sessions N --seconds S --server PID, on one --backend, only reports what N
sessions cost the server with this process ID; see docker/capacity.

--idle N,... only reports how long a handover between two clients takes while this
number of other clients is idle.

--way URL, repeated, only reports how fast one task's pairs are by each of several
ways to a store, such as a pooler.

--aged N only reports what renewals and a lock cost on a database with an open
snapshot, after many of them, and what N names cost that were used once.
";

pub(crate) fn parse() -> Result<Command, lexopt::Error> {
    let mut parser = Parser::from_env();
    let (mut repeats, mut carry) = (None, Vec::new());
    let (mut sessions, mut seconds, mut server) = (None, 30, None);
    let mut bench = Bench {
        // The last ones answer separate questions, and take as long as all others.
        only: Workload::ALL.into_iter().filter(|workload| !workload.is_aside()).collect(),
        out: PathBuf::from("target/bench"),
        slices: 20,
        ..Bench::default()
    };
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("role") => {
                let role = serde_json::from_str(&parser.value()?.string()?)
                    .map_err(|error| error.to_string())?;
                return Ok(Command::Role(role));
            }
            Arg::Long("draw") => return Ok(Command::Draw(parser.value()?.into())),
            Arg::Long("carry") => carry = addresses(&mut parser)?,
            Arg::Long("between") => {
                let between = parser.value()?.string()?.parse().map_err(|error: String| error)?;
                bench.between = Some(between);
            }
            Arg::Long("quick") => bench.quick = true,
            Arg::Long("check") => bench.check = true,
            Arg::Long("only") => bench.only = workloads(&parser.value()?.string()?)?,
            Arg::Long("backend") => bench.backends = backends(&parser.value()?.string()?)?,
            Arg::Long("repeats") => repeats = Some(parser.value()?.parse()?),
            Arg::Long("beside") => bench.beside = Some(parser.value()?.into()),
            Arg::Long("slices") => bench.slices = parser.value()?.parse()?,
            Arg::Long("idle") => {
                for count in parser.value()?.string()?.split(',') {
                    bench
                        .idle
                        .push(count.parse().map_err(|_| "the number of clients is not a number")?);
                }
            }
            Arg::Long("way") => bench.ways.push(parser.value()?.string()?),
            Arg::Long("aged") => bench.names = parser.value()?.parse()?,
            Arg::Long("peers") => bench.peers = Some(parser.value()?.string()?),
            Arg::Long("sessions") => sessions = Some(parser.value()?.parse()?),
            Arg::Long("seconds") => seconds = parser.value()?.parse()?,
            Arg::Long("server") => server = Some(parser.value()?.parse()?),
            Arg::Long("out") => bench.out = parser.value()?.into(),
            Arg::Long("help") | Arg::Short('h') => return Ok(Command::Help),
            Arg::Long(server) if server.ends_with("-process") => {
                let Ok(backend) = named(server.trim_end_matches("-process")) else {
                    return Err(arg.unexpected());
                };
                bench.processes.insert(backend, parser.value()?.parse()?);
            }
            Arg::Long(servers) => {
                let (name, of) = match servers.strip_suffix("-cluster") {
                    Some(name) => (name, &mut bench.clusters),
                    None => (servers, &mut bench.singles),
                };
                let Ok(backend) = named(name) else { return Err(arg.unexpected()) };
                of.insert(backend, addresses(&mut parser)?);
            }
            other => return Err(other.unexpected()),
        }
    }
    if !carry.is_empty() {
        let between = bench.between.ok_or("--between is missing")?;
        return Ok(Command::Carry { servers: carry, between });
    }
    if let Some(sessions) = sessions {
        let server = server.ok_or("the process of a server is missing")?;
        bench.capacity = Some(Capacity { sessions, seconds, server });
    }
    bench.repeats = repeats.unwrap_or(if bench.quick { 1 } else { 3 });
    if bench.backends.is_empty() {
        bench.backends = bench.singles.keys().copied().collect();
    }
    if bench.backends.is_empty()
        || bench.backends.iter().any(|backend| bench.single(*backend).is_empty())
    {
        return Err("no servers".into());
    }
    Ok(Command::Bench(Box::new(bench)))
}

fn addresses(parser: &mut Parser) -> Result<Vec<String>, lexopt::Error> {
    Ok(parser.value()?.string()?.split(',').map(str::to_owned).collect())
}

fn backends(list: &str) -> Result<Vec<Backend>, lexopt::Error> {
    Ok(list.split(',').map(named).collect::<Result<_, _>>()?)
}

fn workloads(list: &str) -> Result<Vec<Workload>, lexopt::Error> {
    Ok(list.split(',').map(store::named).collect::<Result<_, _>>()?)
}
