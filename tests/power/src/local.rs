//! A trial of SQLite: the clients are processes that end when their host loses power.

use distlock::Client;
use distlock_testkit::{Result, child::Child, clock::now, event::Event, orders};
use fastrand::Rng;
use tokio::{sync::watch, task::JoinHandle};

use crate::{checker, client, disk::Cut, events::Events, host::Host, trial::Trial};

/// More clients than locks.
const CLIENTS: usize = 4;

#[derive(Debug)]
struct Worker {
    number: usize,
    process: Child,
    listening: JoinHandle<Result<()>>,
}

/// The part of a worker's process: runs one client until the process is killed.
pub(crate) async fn work(url: &str, number: &str, seed: &str) -> Result<()> {
    let _end = orders::orders_for_life();
    let durability = Client::connect(url).await?.durability().await?;
    let promise = format!("{} {}", durability.exclusive, durability.reasons.join("; "));
    Event::new("promise", promise).report()?;
    let sink: client::Sink = std::sync::Arc::new(|event: Event| {
        // The process ends with its parent.
        let _ = event.report();
    });
    let (_never, ends) = watch::channel(false);
    client::run(url.to_owned(), number.parse()?, client::TTL, seed.parse()?, sink, ends).await;
    Ok(())
}

/// Runs the trial with this seed, on a new disk.
pub(crate) async fn run(host: &mut Host, seed: u64, cuts: u32) -> Result<Trial> {
    let mut random = Rng::with_seed(seed);
    host.begin()?;
    let mut trial = Trial { seed, ..Trial::default() };
    let events = Events::default();
    let mut workers = start(host, &events, 0, &mut random)?;
    events.served(0, || Ok(false)).await?;
    while trial.cuts < cuts && trial.broken == 0 {
        events.moment(&mut random).await;
        kill(workers, &events).await?;
        host.cut_power(Cut::any(&mut random), &mut random)?;
        trial.cuts += 1;
        let turned_on = now();
        let first = trial.cuts as usize * CLIENTS;
        workers = start(host, &events, first, &mut random)?;
        if let Err(error) = events.served(turned_on, || Ok(false)).await {
            eprintln!("seed {seed}, after power cut {}: {error}", trial.cuts);
            trial.broken = 1;
        }
    }
    kill(workers, &events).await?;
    let events = events.all();
    let promise = events.iter().find(|(_, event)| event.word == "promise");
    let (_, promise) = promise.ok_or("no client connected")?;
    let (exclusive, reasons) = promise.rest.split_once(' ').ok_or("malformed")?;
    (trial.exclusive, trial.reasons) = (exclusive.parse()?, reasons.to_owned());
    trial.verdict = checker::check(&events)?;
    Ok(trial)
}

/// Starts the workers with the numbers from `first` on.
fn start(host: &Host, events: &Events, first: usize, random: &mut Rng) -> Result<Vec<Worker>> {
    let start = |number: usize| {
        let (sink, seed) = (events.sink(number), random.u64(..).to_string());
        let mut command = Child::again()?;
        let mut process =
            Child::start(command.args(["worker", &host.url(), &number.to_string(), &seed]))?;
        let listening = process.listen(move |line| {
            sink(Event::parse(line).ok_or_else(|| format!("no event: {line}"))?);
            Ok(())
        });
        Ok(Worker { number, process, listening })
    };
    (first..first + CLIENTS).map(start).collect()
}

async fn kill(mut workers: Vec<Worker>, events: &Events) -> Result<()> {
    let killed = now();
    for worker in &mut workers {
        worker.process.kill().await?;
    }
    for worker in workers {
        worker.listening.await??;
        events.sink(worker.number)(Event {
            word: "killed".to_owned(),
            at: killed,
            rest: String::new(),
        });
    }
    Ok(())
}
