//! The command line.

use std::{
    num::NonZero,
    path::PathBuf,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use lexopt::{Arg, Parser, ValueExt};

use crate::server::Contract;

const USAGE: &str = "\
Usage: simulation [--seeds N] [--first N] [--minutes M] [--contract etcd|zookeeper|redis]
                  [--known FILE] [--coverage] [--complete] [--failures N] [--no-shrink]
                  [--trace FILE] [--threads N]
       simulation --seed N [--contract etcd|zookeeper|redis]
       simulation -h

Runs histories of distlock's own code on a simulated store, one for each seed and contract: first
the seeds in a file (--known; each line has a contract, a seed and a comment), then --seeds seeds
from --first on (default: 10,000 from 1), or new seeds for a number of minutes. --threads sets the
number of threads (default: one per processor), which affects only the duration. --coverage prints
how often each event happened; --complete fails if an expected event never happened. --trace writes
the events of the keys of plain locks for the model. --seed runs one history and prints all of it;
the last line is a hash of its events.";

#[derive(Debug, Default)]
pub(crate) struct Args {
    pub(crate) seed: Option<u64>,
    pub(crate) first: u64,
    pub(crate) seeds: u64,
    pub(crate) minutes: Option<Duration>,
    pub(crate) contracts: Vec<Contract>,
    pub(crate) known: Option<PathBuf>,
    pub(crate) coverage: bool,
    pub(crate) complete: bool,
    pub(crate) failures: u64,
    pub(crate) shrinks: bool,
    pub(crate) trace: Option<PathBuf>,
    pub(crate) threads: usize,
}

impl Contract {
    const ALL: &[Self] = &[
        Self::Etcd,
        Self::ZooKeeper,
        #[cfg(feature = "redis")]
        Self::Redis,
    ];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|contract| contract.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ZooKeeper => "zookeeper",
            Self::Redis => "redis",
        }
    }
}

impl Args {
    /// Returns `None` if help was requested.
    pub(crate) fn parse() -> Result<Option<Self>, lexopt::Error> {
        let mut args = Self {
            seeds: 10_000,
            contracts: vec![Contract::Etcd, Contract::ZooKeeper],
            failures: 1,
            shrinks: true,
            threads: thread::available_parallelism().map_or(1, NonZero::get),
            ..Self::default()
        };
        let (mut parser, mut first) = (Parser::from_env(), None);
        while let Some(arg) = parser.next()? {
            match arg {
                Arg::Long("seed") => args.seed = Some(parser.value()?.parse()?),
                Arg::Long("first") => first = Some(parser.value()?.parse()?),
                Arg::Long("known") => args.known = Some(parser.value()?.into()),
                Arg::Long("trace") => args.trace = Some(parser.value()?.into()),
                Arg::Long("seeds") => args.seeds = parser.value()?.parse()?,
                Arg::Long("failures") => args.failures = parser.value()?.parse()?,
                Arg::Long("threads") => {
                    args.threads = parser.value()?.parse::<NonZero<_>>()?.get();
                }
                Arg::Long("minutes") => {
                    let minutes: f64 = parser.value()?.parse()?;
                    args.minutes = Some(Duration::from_secs_f64(minutes * 60.0));
                    args.seeds = u64::MAX;
                }
                Arg::Long("contract") => {
                    let name = parser.value()?.string()?;
                    let contract = Contract::named(&name);
                    args.contracts =
                        vec![contract.ok_or_else(|| format!("unknown contract {name}"))?];
                }
                Arg::Long("coverage") => args.coverage = true,
                Arg::Long("complete") => args.complete = true,
                Arg::Long("no-shrink") => args.shrinks = false,
                Arg::Short('h') | Arg::Long("help") => {
                    println!("{USAGE}");
                    return Ok(None);
                }
                _ => return Err(arg.unexpected()),
            }
        }
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let drawn = args.minutes.map(|_| clock() << 16);
        args.first = first.or(drawn).unwrap_or(1);
        Ok(Some(args))
    }
}
