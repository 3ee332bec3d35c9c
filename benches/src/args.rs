//! The command line.

use std::path::PathBuf;

use distlock_testkit::backend::Backend;
use lexopt::{Arg, Parser, ValueExt};

use crate::{task::Role, workload::Workload};

#[derive(Clone, Debug)]
pub(crate) struct Bench {
    pub(crate) quick: bool,
    pub(crate) check: bool,
    pub(crate) only: Vec<Workload>,
    pub(crate) backends: Vec<Backend>,
    pub(crate) repeats: usize,
    pub(crate) out: PathBuf,
    /// Another build of this program, whose library ours is compared with.
    pub(crate) beside: Option<PathBuf>,
    /// How many slices of each line, of both builds together.
    pub(crate) slices: usize,
    pub(crate) capacity: Option<Capacity>,
    /// Addresses of the single nodes, by backend, and of the clusters.
    pub(crate) etcd: Vec<String>,
    pub(crate) zookeeper: Vec<String>,
    pub(crate) etcd_cluster: Vec<String>,
    pub(crate) zookeeper_cluster: Vec<String>,
}

/// What one server carries, beside so many sessions, for so long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    pub(crate) sessions: usize,
    pub(crate) seconds: u64,
    /// The number of the server's process.
    pub(crate) server: u32,
}

impl Bench {
    pub(crate) fn single(&self, backend: Backend) -> &[String] {
        match backend {
            Backend::Etcd => &self.etcd,
            Backend::ZooKeeper => &self.zookeeper,
        }
    }

    pub(crate) fn cluster(&self, backend: Backend) -> &[String] {
        match backend {
            Backend::Etcd => &self.etcd_cluster,
            Backend::ZooKeeper => &self.zookeeper_cluster,
        }
    }
}

pub(crate) enum Command {
    Bench(Bench),
    /// A process that the bench started.
    Role(Role),
    Help,
}

pub(crate) const USAGE: &str = "\
Usage: bench [OPTIONS] --etcd ADDRESS --zookeeper ADDRESS
             [--etcd-cluster ADDRESS,... --zookeeper-cluster ADDRESS,...]

The servers to measure on; docker/bench starts them. OPTIONS are those of docker/bench.

With --beside OLD, another build of this program, it only compares the libraries
in the two, in --slices N of each line; see docker/compare.

With --sessions N --seconds S --server PID, on one --backend, it only tells what
N sessions cost the server that is this process; see docker/capacity.
";

pub(crate) fn parse() -> Result<Command, lexopt::Error> {
    let mut parser = Parser::from_env();
    let mut repeats = None;
    let (mut sessions, mut seconds, mut server) = (None, 30, None);
    let mut bench = Bench {
        quick: false,
        check: false,
        only: Workload::ALL.to_vec(),
        backends: Backend::BOTH.to_vec(),
        repeats: 3,
        out: PathBuf::from("target/bench"),
        beside: None,
        slices: 20,
        capacity: None,
        etcd: Vec::new(),
        zookeeper: Vec::new(),
        etcd_cluster: Vec::new(),
        zookeeper_cluster: Vec::new(),
    };
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("role") => {
                let role = serde_json::from_str(&parser.value()?.string()?)
                    .map_err(|error| error.to_string())?;
                return Ok(Command::Role(role));
            }
            Arg::Long("quick") => bench.quick = true,
            Arg::Long("check") => bench.check = true,
            Arg::Long("only") => bench.only = workloads(&parser.value()?.string()?)?,
            Arg::Long("backend") => bench.backends = vec![parser.value()?.parse()?],
            Arg::Long("repeats") => repeats = Some(parser.value()?.parse()?),
            Arg::Long("beside") => bench.beside = Some(parser.value()?.into()),
            Arg::Long("slices") => bench.slices = parser.value()?.parse()?,
            Arg::Long("sessions") => sessions = Some(parser.value()?.parse()?),
            Arg::Long("seconds") => seconds = parser.value()?.parse()?,
            Arg::Long("server") => server = Some(parser.value()?.parse()?),
            Arg::Long("out") => bench.out = parser.value()?.into(),
            Arg::Long("etcd") => bench.etcd = addresses(&mut parser)?,
            Arg::Long("zookeeper") => bench.zookeeper = addresses(&mut parser)?,
            Arg::Long("etcd-cluster") => bench.etcd_cluster = addresses(&mut parser)?,
            Arg::Long("zookeeper-cluster") => bench.zookeeper_cluster = addresses(&mut parser)?,
            Arg::Long("help") | Arg::Short('h') => return Ok(Command::Help),
            other => return Err(other.unexpected()),
        }
    }
    if let Some(sessions) = sessions {
        let server = server.ok_or("no process of a server")?;
        bench.capacity = Some(Capacity { sessions, seconds, server });
    }
    bench.repeats = repeats.unwrap_or(if bench.quick { 1 } else { 3 });
    if bench.backends.iter().any(|backend| bench.single(*backend).is_empty()) {
        return Err("no servers".into());
    }
    Ok(Command::Bench(bench))
}

fn addresses(parser: &mut Parser) -> Result<Vec<String>, lexopt::Error> {
    Ok(parser.value()?.string()?.split(',').map(str::to_owned).collect())
}

fn workloads(list: &str) -> Result<Vec<Workload>, lexopt::Error> {
    let find =
        |name: &str| Workload::ALL.into_iter().find(|workload| format!("{workload:?}") == name);
    list.split(',')
        .map(|name| find(name).ok_or_else(|| format!("no workload {name:?}").into()))
        .collect()
}
