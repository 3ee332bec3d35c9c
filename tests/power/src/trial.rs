//! A trial: clients contend for locks of a server whose machine loses power again and again.

use std::{sync::Arc, time::Duration};

use distlock_testkit::{
    Result,
    clock::now,
    proxy::{Mode, Proxy},
};
use fastrand::Rng;
use tokio::{sync::watch, task::JoinSet, time::sleep};

use crate::{
    checker::{self, Verdict},
    client,
    disk::Cut,
    events::Events,
    machine::Machine,
};

/// More clients than locks.
const CLIENTS: usize = 5;

/// How a trial ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trial {
    pub(crate) seed: u64,
    /// The number of power cuts.
    pub(crate) cuts: u32,
    /// How often the server did not serve again: 1 after the last power cut, or 0.
    pub(crate) broken: u32,
    pub(crate) verdict: Verdict,
    /// What `Client::durability` reports.
    pub(crate) exclusive: bool,
    pub(crate) reasons: String,
}

impl Cut {
    pub(crate) fn any(random: &mut Rng) -> Self {
        if random.bool() { Self::Forget } else { Self::Some }
    }
}

/// Runs the trial with this seed, on a new disk.
pub(crate) async fn run(
    machine: &mut Machine,
    ttl: Duration,
    seed: u64,
    cuts: u32,
) -> Result<Trial> {
    let mut random = Rng::with_seed(seed);
    machine.begin().await?;
    let client = machine.client().await?;
    let durability = client.durability().await?;
    client.close().await?;
    let (exclusive, reasons) = (durability.exclusive, durability.reasons.join("; "));
    let mut trial = Trial { seed, exclusive, reasons, ..Trial::default() };

    let events = Events::default();
    let (end, ends) = watch::channel(false);
    let (mut links, mut clients) = (Vec::new(), JoinSet::new());
    for number in 0..CLIENTS {
        let proxy = Proxy::start(machine.address(), None).await;
        let url = machine.setup.url(proxy.address.port());
        let (sink, ttl) = (events.sink(number), client::ttl(ttl, &url, number));
        clients.spawn(client::run(url, number, ttl, random.u64(..), sink, ends.clone()));
        links.push((Arc::new(proxy), ttl));
    }
    events.served(0, || machine.has_ended()).await?;
    while trial.cuts < cuts && trial.broken == 0 {
        let granted = events.moment(&mut random).await;
        disconnect_some(&links, granted, &mut random);
        machine.cut_power(Cut::any(&mut random), &mut random).await?;
        trial.cuts += 1;
        let turned_on = now();
        let back = match machine.turn_on().await {
            Ok(()) => events.served(turned_on, || machine.has_ended()).await,
            Err(error) => Err(error),
        };
        if let Err(error) = back {
            eprintln!("seed {seed}, after power cut {}: {error}", trial.cuts);
            trial.broken = 1;
        }
    }
    end.send_replace(true);
    while let Some(client) = clients.join_next().await {
        client?;
    }
    trial.verdict = checker::check(&events.all())?;
    Ok(trial)
}

/// Takes the network from some clients for up to 1.2 of their TTLs, mostly from the one with the
/// latest grant: they learn nothing from the server after its restart.
fn disconnect_some(links: &[(Arc<Proxy>, Duration)], granted: Option<usize>, random: &mut Rng) {
    for (number, (proxy, ttl)) in links.iter().enumerate() {
        let chance = if granted == Some(number) { 3 } else { 1 };
        if random.u8(..4) < chance {
            proxy.set(Mode::Blackhole);
            let (proxy, time) = (Arc::clone(proxy), ttl.mul_f64(1.2 * random.f64()));
            tokio::spawn(async move {
                sleep(time.max(Duration::from_millis(1))).await;
                // Without the connections to the server that was killed.
                proxy.hang_up();
                proxy.set(Mode::Pass);
            });
        }
    }
}
