//! Processes that are stopped for about the TTL of their idle sessions, and acquire a lock on
//! waking.
//!
//! A write through a follower passes the leader's check of the session without renewing it. The
//! renewal comes with the follower's next reply to the leader's ping. So a session that was silent
//! for almost its timeout may expire right after a write. A watch on the leader shows how long the
//! holder's node existed, and the holder reports how long its guard was valid.

mod sleeper;

use std::time::Duration;

use distlock_testkit::{
    Result,
    backend::Backend,
    child::Child,
    clock::uptime,
    deletion::deletion,
    fleet::{Fleet, Worker},
    proxies::Proxies,
    proxy::Mode,
};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use zookeeper_client::Client as ZooKeeper;

use crate::{cluster::Cluster, fault::Role};

pub(crate) use sleeper::run as sleep_and_lock;

const PROCESSES: usize = 16;

const TTLS: [Duration; 3] =
    [Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(6)];

/// The servers' tick in docker/compose.yml. Sessions expire at whole ticks.
const TICK: Duration = Duration::from_secs(1);

/// How long a lock acquired on waking is held. A session that was about to expire has expired by
/// then.
const HOLD: Duration = Duration::from_millis(2200);

/// The results of rounds of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    pauses: usize,
    grants: usize,
    /// Grants on the same connection. A new connection renews the session.
    unbroken: usize,
    overlaps: usize,
    /// In microseconds.
    longest: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.pauses += other.pauses;
        self.grants += other.grants;
        self.unbroken += other.unbroken;
        self.overlaps += other.overlaps;
        self.longest = self.longest.max(other.longest);
    }

    fn row(&self, of: &str) -> String {
        let Self { pauses, grants, unbroken, overlaps, longest } = self;
        let longest = Duration::from_micros(*longest).as_secs_f64() * 1000.0;
        format!("{of:<15} {pauses:>6} {grants:>6} {unbroken:>19} {overlaps:>8} {longest:>10.1}")
    }
}

/// Returns the results as a table, and whether there were no overlaps.
pub(crate) fn pauses(number: usize) -> Result<(String, bool)> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(conduct(number));
    runtime.shutdown_background();
    done
}

async fn conduct(number: usize) -> Result<(String, bool)> {
    let cluster = Cluster::connect(Backend::ZooKeeper).await?;
    let leader = cluster.find(Role::Leader).await?;
    let followers: Vec<_> = (0..cluster.servers.len()).filter(|server| *server != leader).collect();
    let followers: Vec<_> = followers.into_iter().map(|server| cluster.servers[server]).collect();
    let watcher = ZooKeeper::connect(&cluster.servers[leader].to_string()).await?;
    let namespace = format!("/pauses-{:08x}", fastrand::u32(..));
    let other = distlock::Client::builder(cluster.url()).namespace(&namespace).connect().await?;
    let rounds = number.div_ceil(PROCESSES * TTLS.len());
    let mut table =
        vec!["T, downlink     pauses grants by same connection overlaps longest/ms".to_owned()];
    let mut all = Tally::default();
    for ttl in TTLS {
        let mut lanes = JoinSet::new();
        for lane in 0..PROCESSES {
            let lane = Lane {
                name: format!("{}-{lane}", ttl.as_secs()),
                number: lane,
                ttl,
                proxies: Proxies::start(Backend::ZooKeeper, &followers).await,
                watcher: watcher.clone(),
                other: other.clone(),
            };
            lanes.spawn(lane.run(namespace.clone(), rounds));
        }
        let mut tallies = [Tally::default(); 2];
        while let Some(lane) = lanes.join_next().await {
            for (tally, more) in tallies.iter_mut().zip(lane??) {
                tally.add(more);
            }
        }
        for (tally, downlink) in tallies.iter().zip(["whole", "cut"]) {
            table.push(tally.row(&format!("{} s, {downlink}", ttl.as_secs())));
            eprintln!("{}", table[table.len() - 1]);
            all.add(*tally);
        }
    }
    table.push(all.row("all"));
    other.close().await?;
    if all.grants * 2 < all.pauses {
        return Err(format!(
            "only {} of {} pauses ended with a grant: too few to prove anything",
            all.grants, all.pauses
        )
        .into());
    }
    Ok((table.join("\n"), all.overlaps == 0))
}

/// A process and its network to the servers.
struct Lane {
    name: String,
    number: usize,
    ttl: Duration,
    proxies: Proxies,
    /// A client of the leader.
    watcher: ZooKeeper,
    /// Another client that acquires the lock.
    other: distlock::Client,
}

impl Lane {
    /// Runs the rounds of one process, with the downlink intact or cut right after the grant.
    async fn run(self, namespace: String, rounds: usize) -> Result<[Tally; 2]> {
        let ttl = self.ttl.as_millis().to_string();
        let mut command = Child::again()?;
        command.args(["--sleeper", &self.proxies.url(), &namespace, &ttl]);
        let mut sleeper = Fleet::default().start(&self.name, &mut command)?;
        let mut tallies = [Tally::default(); 2];
        for round in 0..rounds {
            let cut = (round + self.number).is_multiple_of(2);
            tallies[usize::from(cut)].add(self.round(&mut sleeper, round, cut).await?);
        }
        Ok(tallies)
    }

    async fn round(&self, sleeper: &mut Worker, round: usize, cut: bool) -> Result<Tally> {
        let name = format!("{}-{round}", self.name);
        sleeper.tell_until(&name, "idle").await?;
        // zookeeper-client pings at least every eighth of T, and tolerates silence for a quarter.
        // So a reply is in flight when the process stops, and the process finds it on waking.
        sleep(self.ttl.mul_f64(0.2 + fastrand::f64() * 0.1)).await;
        self.proxies.set(&Mode::BlackholeToClient);
        sleep(self.ttl.mul_f64(0.11)).await;
        let accepted = self.proxies.accepted();
        sleeper.child.stop().await?;
        self.proxies.set(&Mode::Pass);
        sleep(self.ttl + TICK.mul_f64(fastrand::f64())).await;
        sleeper.child.go_on()?;

        let mut tally = Tally { pauses: 1, ..Tally::default() };
        let woke = sleeper.until_one(&["granted", "refused"]).await?;
        if woke.word == "refused" {
            eprintln!("{woke}");
        } else {
            if cut {
                self.proxies.set(&Mode::BlackholeToClient);
            }
            let unbroken = self.proxies.accepted() == accepted;
            let deleted = {
                let watcher = self.watcher.clone();
                tokio::spawn(async move { deletion(&watcher, &woke.rest).await })
            };
            let mutex = self.other.mutex(&name);
            let second = tokio::spawn(async move {
                let guard = mutex.lock().await?;
                let granted = uptime();
                guard.unlock().await.map(|()| granted)
            });
            let valid = sleeper.until("valid").await?.rest.parse::<u64>()?;
            // A guard that was never valid shows nothing.
            tally.grants = usize::from(valid > 0);
            tally.unbroken = usize::from(valid > 0 && unbroken);
            self.proxies.set(&Mode::Pass);
            // By the servers' event, or by the grant to another client.
            let limit = self.ttl * 3 + TICK * 5;
            let (deleted, granted) =
                (timeout(limit, deleted).await???, timeout(limit, second).await???);
            let over = deleted.min(granted);
            tally.longest = valid.saturating_sub(over);
            tally.overlaps = usize::from(valid > over);
        }
        sleeper.until("done").await?;
        Ok(tally)
    }
}
