//! Measures distlock compared with the two writes that any lock needs, and with its peers, all in
//! one run.

mod aged;
mod apart;
mod args;
mod backend;
mod bars;
mod behind;
mod beside;
mod canvas;
mod capacity;
mod case;
mod conduct;
mod contender;
mod counters;
mod crossover;
mod fleet;
mod floor;
mod held;
mod idle;
mod join;
mod lines;
mod link;
mod load;
mod long;
mod machine;
mod map;
mod measures;
mod paced;
mod pairs;
mod panels;
mod plot;
mod poller;
mod primitive;
mod queue;
mod recipe;
mod report;
mod scripts;
mod sessions;
mod slice;
mod sql;
mod statements;
mod statistics;
mod subject;
mod table;
mod targets;
mod task;
#[cfg(feature = "telemetry")]
mod telemetry;
mod tries;
mod turns;
mod usage;
mod ways;
mod workload;

use std::{process::ExitCode, time::Duration};

use args::Command;
use distlock_testkit::{
    proxy::{Mode, Proxy},
    servers::resolve,
};
use link::{Line, mark, tell};
use slice::Slice;
use subject::Connected;
use task::{Role, Task, Work};

pub(crate) use distlock_testkit::Result;

fn main() -> ExitCode {
    match run() {
        Ok(good) => ExitCode::from(u8::from(!good)),
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns `true` if the run passed.
fn run() -> Result<bool> {
    match args::parse().map_err(|error| format!("{error}; see docker/bench --help"))? {
        Command::Bench(bench) => {
            // Does next to nothing while other processes are measured.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            match (&bench.beside, bench.capacity) {
                (Some(old), _) => runtime.block_on(beside::compare(&bench, old)),
                (_, Some(capacity)) => runtime.block_on(capacity::look(&bench, capacity)),
                _ if !bench.ways.is_empty() => runtime.block_on(ways::look(&bench.ways)),
                _ if bench.names > 0 => runtime.block_on(aged::look(&bench, bench.names)),
                _ if !bench.idle.is_empty() => runtime.block_on(idle::look(&bench, &bench.idle)),
                _ => runtime.block_on(conduct::bench(&bench)),
            }
        }
        Command::Draw(folder) => report::draw(&folder).map(|()| true),
        Command::Carry { servers, between } => apart::carry(&servers, between).map(|()| true),
        Command::Role(role) => {
            #[cfg(feature = "telemetry")]
            telemetry::listen()?;
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            let done = runtime.block_on(act(role));
            runtime.shutdown_background();
            done.map(|()| true)
        }
        Command::Help => {
            print!("{}", args::USAGE);
            Ok(true)
        }
    }
}

async fn act(role: Role) -> Result<()> {
    match role {
        Role::Subject(task) => subject(task).await,
        Role::Sessions(sessions) => sessions::run(sessions).await,
        Role::Load { servers, per_second } => load::run(&servers, per_second).await,
        Role::Proxy { servers, delay_ms } => delay(&servers, Duration::from_millis(delay_ms)).await,
    }
}

/// Runs proxies until it is ordered to finish, and adds only the delay. The mark has the proxies'
/// addresses.
async fn delay(servers: &[String], delay: Duration) -> Result<()> {
    let mut proxies = Vec::new();
    for server in resolve(&servers.join(",")).await? {
        let proxy = Proxy::start(server, None).await;
        proxy.set(Mode::Delay(delay));
        proxies.push(proxy);
    }
    let addresses: Vec<_> = proxies.iter().map(|proxy| proxy.address.to_string()).collect();
    mark(&addresses.join(",")).await.map(drop)
}

async fn subject(task: Task) -> Result<()> {
    match work(&task).await {
        Ok((connected, slice)) => {
            tell(Line::Done(Box::new(slice))).await?;
            subject::close(connected).await
        }
        Err(error) => tell(Line::Failed(error.to_string())).await.map(drop),
    }
}

async fn work(task: &Task) -> Result<(Vec<Connected>, Slice)> {
    let (connected, slice) = match &task.work {
        Work::Fleet(fleet) => return fleet::run(task, fleet).await,
        Work::Pairs(pairs) => pairs::run(task, pairs).await?,
        Work::Queue { waiters, patience_ms } => {
            queue::run(task, *waiters, Duration::from_millis(*patience_ms)).await?
        }
        Work::Join { joins } => join::run(task, *joins).await?,
        Work::Held { locks } => held::run(task, *locks).await?,
        Work::Paced { every_ms } => paced::run(task, Duration::from_millis(*every_ms)).await?,
    };
    Ok((vec![connected], slice))
}
