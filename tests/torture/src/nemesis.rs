//! Strikes the workers and the servers, and sometimes lets them recover to check that all waiters
//! are granted.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use distlock_testkit::{
    Result,
    proxies::Proxies,
    proxy::{Mode, Proxy},
};
use tokio::{
    process::Command,
    sync::{Mutex, RwLock},
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    cluster::Cluster,
    event::{Event, Journal},
    fault::{Deed, Kind, Role},
    fleet::Place,
    operator,
    strangers::Strangers,
    worker::Order,
};

/// A worker and its network to the servers.
pub(crate) struct Lane {
    pub(crate) place: Mutex<Option<Place>>,
    pub(crate) proxies: Proxies,
}

pub(crate) struct Nemesis {
    pub(crate) lanes: Vec<Lane>,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) journal: Journal,
    /// The journal of the strangers.
    pub(crate) strangers: Journal,
    pub(crate) namespace: String,
    pub(crate) ttl: Duration,
    pub(crate) bound: Duration,
    /// Held for reading by every fault, and for writing while there must be none.
    pub(crate) peace: RwLock<()>,
    pub(crate) faults: AtomicU64,
    /// Waiters must also be granted between the faults of servers, not only in the end.
    pub(crate) recovers: bool,
}

/// How late a late request is: longer than any client waits for its reply, or tries to undo it.
const LATE: Duration = Duration::from_secs(60);

/// The name of an upgrade of the servers in a history.
pub(crate) const UPGRADE: &str = "upgrade";

/// The number of server faults between two recoveries.
const CAMPAIGN: u32 = 4;

/// Draws each kind once before any is drawn again.
struct Deck {
    kinds: Vec<Kind>,
    left: Vec<Kind>,
}

impl Deck {
    fn draw(&mut self) -> Option<Kind> {
        if self.left.is_empty() {
            self.left.clone_from(&self.kinds);
            fastrand::shuffle(&mut self.left);
        }
        self.left.pop()
    }
}

impl Nemesis {
    /// Injects faults until `end`.
    pub(crate) async fn rage(self: &Arc<Self>, kinds: &[Kind], end: Instant) -> Result<()> {
        let (of_servers, others): (Vec<Kind>, Vec<Kind>) =
            kinds.iter().partition(|kind| kind.is_of_servers());
        let (of_queues, of_workers): (Vec<Kind>, Vec<Kind>) =
            others.iter().partition(|kind| kind.is_of_queues());
        let mut tasks = JoinSet::new();
        for lane in 0..self.lanes.len() {
            let (nemesis, kinds) = (Arc::clone(self), of_workers.clone());
            tasks.spawn(async move { nemesis.haunt(lane, kinds, end).await });
        }
        for kind in of_queues {
            let nemesis = Arc::clone(self);
            tasks.spawn(async move { nemesis.meddle(kind, end).await });
        }
        if self.recovers {
            let nemesis = Arc::clone(self);
            tasks.spawn(async move { nemesis.raid(of_servers, end).await });
        }
        all_well(tasks).await
    }

    /// Runs a program that upgrades the servers, as one fault.
    pub(crate) async fn upgrade(&self, program: &Path) -> Result<()> {
        let number = self.record_fault(UPGRADE, &self.cluster.store.to_string());
        let status = Command::new(program).stdout(std::io::stderr()).status().await?;
        if !status.success() {
            return Err(format!("{}: {status}", program.display()).into());
        }
        for server in 0..self.cluster.servers.len() {
            self.cluster.recovered(server).await?;
        }
        self.journal.record(Event::FaultEnded { fault: number });
        Ok(())
    }

    /// Injects the faults of one worker.
    async fn haunt(&self, lane: usize, kinds: Vec<Kind>, end: Instant) -> Result<()> {
        let mut deck = Deck { kinds, left: Vec::new() };
        let Some(mut kind) = deck.draw() else { return Ok(()) };
        while pause(self.ttl.mul_f64(0.25 + fastrand::f64()), end).await {
            let _fault = self.peace.read().await;
            let target =
                self.lanes[lane].place.lock().await.as_ref().map(|place| place.name().to_owned());
            let number = self.began(kind, &target.unwrap_or_default());
            self.strike(lane, kind).await?;
            self.journal.record(Event::FaultEnded { fault: number });
            kind = deck.draw().unwrap_or(kind);
        }
        Ok(())
    }

    async fn strike(&self, lane: usize, kind: Kind) -> Result<()> {
        let Lane { place, proxies } = &self.lanes[lane];
        let (time, ways) = (kind.duration(self.ttl), self.ways(proxies));
        let set = |mode: &Mode| ways.iter().for_each(|way| way.set(mode.clone()));
        let mut place = place.lock().await;
        let place = place.as_mut().ok_or("no worker")?;
        match kind {
            Kind::Sigstop => {
                place.stop().await?;
                sleep(time).await;
                place.go_on()?;
            }
            Kind::SigstopIdle => place.stop_itself(Order::StopIdle, time, self.ttl * 2).await?,
            Kind::SigstopBeforeLock => {
                place.stop_itself(Order::StopBeforeLock, time, self.ttl * 2).await?
            }
            Kind::Sigkill => {
                place.kill().await?;
                sleep(time / 4).await;
                place.restart()?;
            }
            Kind::Block => {
                place.order(Order::Block(time.as_millis() as u64)).await?;
                sleep(time).await;
            }
            Kind::Flap => {
                let end = Instant::now() + time;
                while Instant::now() < end {
                    set(&Mode::Blackhole);
                    sleep(Duration::from_millis(700)).await;
                    set(&Mode::Pass);
                    sleep(Duration::from_millis(300)).await;
                }
            }
            _ => {
                let mode = match kind {
                    Kind::ToServer => Mode::BlackholeToServer,
                    Kind::ToClient => Mode::BlackholeToClient,
                    Kind::Swallow => Mode::SwallowReply,
                    Kind::Drop => Mode::DropOne(self.cluster.event_of(&self.namespace).into()),
                    Kind::Delay => Mode::Delay(self.ttl.mul_f64(0.02 + fastrand::f64() * 0.15)),
                    Kind::LateRequests => Mode::LateToServer(LATE),
                    Kind::Refuse => Mode::Refuse,
                    _ => Mode::Blackhole,
                };
                set(&mode);
                sleep(time).await;
                set(&Mode::Pass);
            }
        }
        Ok(())
    }

    /// Returns the connections that a fault strikes: all of them, or for independent nodes a
    /// minority or a majority.
    fn ways<'a>(&self, proxies: &'a Proxies) -> Vec<&'a Proxy> {
        let all = proxies.all.len();
        let some = match fastrand::u8(..3) {
            0 => all / 2,
            1 => all / 2 + 1,
            _ => all,
        };
        let some = if self.cluster.store.queues() { all } else { some };
        fastrand::choose_multiple(&proxies.all, some)
    }

    /// Injects the faults of servers, one at a time, and the recoveries in between.
    async fn raid(&self, kinds: Vec<Kind>, end: Instant) -> Result<()> {
        let mut deck = Deck { kinds, left: Vec::new() };
        loop {
            for _ in 0..CAMPAIGN {
                // Redlock guarantees nothing if a majority of the nodes loses data unnoticed within
                // one TTL.
                let least = if self.cluster.store.queues() { 0.5 } else { 2.5 };
                let rest = least + fastrand::f64() * 2.0;
                if !pause(self.ttl.mul_f64(rest), end).await {
                    return Ok(());
                }
                let Some(kind) = deck.draw() else {
                    // Only workers' faults.
                    pause(self.ttl * 3, end).await;
                    continue;
                };
                let _fault = self.peace.read().await;
                self.strike_server(kind).await?;
            }
            self.recover(true).await?;
        }
    }

    async fn strike_server(&self, kind: Kind) -> Result<()> {
        let cluster = &self.cluster;
        if let Kind::Database(trouble) = kind {
            let number = self.began(kind, &cluster.store.to_string());
            cluster.trouble(trouble, &self.namespace, kind.duration(self.ttl)).await?;
            for server in 0..cluster.servers.len() {
                cluster.recovered(server).await?;
            }
            self.journal.record(Event::FaultEnded { fault: number });
            return Ok(());
        }
        let (deed, mut struck) = match kind {
            Kind::Servers(deed) => (deed, (0..cluster.servers.len()).collect()),
            Kind::Server(deed, role) => (deed, vec![cluster.find(role).await?]),
            Kind::KillCut => (Deed::Kill, vec![cluster.find(Role::Follower).await?]),
            _ => (Deed::Pause, vec![cluster.find(Role::Follower).await?]),
        };
        let two = matches!(kind, Kind::PauseQuorum | Kind::KillCut);
        let more = two || !cluster.store.queues() && fastrand::bool();
        if more {
            struck.extend((0..cluster.servers.len()).find(|server| !struck.contains(server)));
        }
        let names: Vec<_> = struck.iter().map(|server| cluster.service(*server)).collect();
        let mut deeds: Vec<_> = struck.iter().map(|server| (deed, *server)).collect();
        if let (Kind::KillCut, Some((second, _))) = (kind, deeds.last_mut()) {
            *second = Deed::Cut;
        }
        let number = self.began(kind, &names.join(" and "));
        let (mut strikes, mut mends) = (JoinSet::new(), JoinSet::new());
        for (deed, server) in deeds.clone() {
            let cluster = Arc::clone(cluster);
            strikes.spawn(async move { cluster.strike(deed, server).await });
        }
        all_well(strikes).await?;
        sleep(kind.duration(self.ttl)).await;
        for (deed, server) in deeds {
            let cluster = Arc::clone(cluster);
            mends.spawn(async move { cluster.mend(deed, server).await });
        }
        all_well(mends).await?;
        for server in &struck {
            cluster.recovered(*server).await?;
        }
        self.journal.record(Event::FaultEnded { fault: number });
        Ok(())
    }

    /// Injects the faults of the queues, of one kind.
    async fn meddle(&self, kind: Kind, end: Instant) -> Result<()> {
        while pause(self.ttl.mul_f64(0.25 + fastrand::f64()), end).await {
            let _fault = self.peace.read().await;
            let number = self.began(kind, "the queues");
            let over = Instant::now() + kind.duration(self.ttl);
            match kind {
                Kind::Operator => {
                    operator::meddle(&self.cluster, &self.journal, &self.namespace, over).await
                }
                _ => {
                    let (journal, namespace) = (self.strangers.clone(), self.namespace.clone());
                    let strangers = Strangers { journal, namespace, ttl: self.ttl, over };
                    strangers.mingle(&self.cluster).await;
                }
            }
            self.journal.record(Event::FaultEnded { fault: number });
        }
        Ok(())
    }

    fn began(&self, kind: Kind, target: &str) -> u64 {
        self.record_fault(&kind.to_string(), target)
    }

    fn record_fault(&self, kind: &str, target: &str) -> u64 {
        let fault = self.faults.fetch_add(1, SeqCst);
        let (kind, target) = (kind.to_owned(), target.to_owned());
        self.journal.record(Event::FaultBegan { fault, kind, target });
        fault
    }

    /// Waits until no fault is left and all servers serve. Then all waiters must be granted in
    /// time. With `resume` the faults continue afterwards.
    pub(crate) async fn recover(&self, resume: bool) -> Result<()> {
        let peace = self.peace.write().await;
        for server in 0..self.cluster.servers.len() {
            self.cluster.recovered(server).await?;
        }
        self.journal.record(Event::Healed);
        let mut before = Vec::new();
        for lane in &self.lanes {
            let mut place = lane.place.lock().await;
            let place = place.as_mut().ok_or("no worker")?;
            before.push(place.served());
            place.order(Order::Calm).await?;
        }
        // The checker decides whether it took too long.
        let limit = Instant::now() + self.bound + Duration::from_secs(1);
        for (lane, before) in self.lanes.iter().zip(before) {
            while lane.place.lock().await.as_ref().is_some_and(|place| place.served() == before)
                && Instant::now() < limit
            {
                sleep(Duration::from_millis(10)).await;
            }
        }
        if resume {
            for lane in &self.lanes {
                lane.place.lock().await.as_mut().ok_or("no worker")?.order(Order::Resume).await?;
            }
            self.journal.record(Event::Resumed);
        }
        drop(peace);
        Ok(())
    }
}

/// Waits for all tasks, and fails if one of them did.
async fn all_well(mut tasks: JoinSet<Result<()>>) -> Result<()> {
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

/// Pauses up to `end`, and returns `true` if there is time left.
async fn pause(time: Duration, end: Instant) -> bool {
    sleep_until((Instant::now() + time).min(end)).await;
    Instant::now() < end
}
