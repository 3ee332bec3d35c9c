//! The command line.

use std::path::PathBuf;

use distlock_testkit::store::named;
use lexopt::{Arg, Parser, ValueExt};

use crate::primitive::Primitive;

/// The default of the longest hold, in milliseconds.
pub(crate) const HOLD: u64 = 3;

pub(crate) enum Command {
    Worker(Task),
    Rollouts(Plan),
}

/// What a worker contends for.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) url: String,
    pub(crate) namespace: String,
    pub(crate) primitive: Primitive,
    /// The longest hold, in milliseconds.
    pub(crate) hold: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// This program, built against the two versions.
    pub(crate) old: PathBuf,
    pub(crate) new: PathBuf,
    /// The minimum number of grants in each order, for each store and primitive.
    pub(crate) grants: usize,
    pub(crate) primitives: Vec<Primitive>,
    pub(crate) urls: Vec<String>,
}

pub(crate) fn parse() -> Result<Command, lexopt::Error> {
    let mut parser = Parser::from_env();
    let (mut old, mut new, mut worker) = (PathBuf::new(), PathBuf::new(), None);
    let (mut grants, mut primitives, mut urls) = (1000, Primitive::ALL.to_vec(), Vec::new());
    let mut hold = HOLD;
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("worker") => worker = Some(parser.value()?.string()?),
            Arg::Long("old") => old = parser.value()?.into(),
            Arg::Long("new") => new = parser.value()?.into(),
            Arg::Long("grants") => grants = parser.value()?.parse()?,
            Arg::Long("hold") => hold = parser.value()?.parse()?,
            Arg::Long("primitive") => primitives = vec![named(&parser.value()?.string()?)?],
            Arg::Value(url) => urls.push(url.string()?),
            other => return Err(other.unexpected()),
        }
    }
    if let Some(namespace) = worker {
        let (Some(url), Some(primitive)) = (urls.pop(), primitives.pop()) else {
            return Err("no URL".into());
        };
        return Ok(Command::Worker(Task { url, namespace, primitive, hold }));
    }
    Ok(Command::Rollouts(Plan { old, new, grants, primitives, urls }))
}
