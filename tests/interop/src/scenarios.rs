//! The scenarios with each of the other clients. Each has one line of output.

use std::{
    fmt,
    time::{Duration, Instant},
};

use distlock_testkit::{Result, backend::Backend, history::History};

use crate::{
    bridge, elections,
    fleet::{Kind, Stage, Worker},
    revoking,
    store::Store,
};

use Kind::{Curator, Distlock, Etcdctl, Go, Kazoo, KazooAlone, KazooAsCurator, ZooKeeperClient};

/// How long the lock of a dead client stays taken.
pub(crate) const SHORT: Duration = Duration::from_secs(4);
/// What servers and watchers may take in addition, on a busy machine.
const GRACE: Duration = Duration::from_secs(3);
/// How long to wait for an event that must not happen, and would happen at once.
pub(crate) const WATCHED: Duration = Duration::from_millis(500);

/// `etcdctl` needs about twice the hold time to come back.
const TURNS: Turns = Turns { grants: 200, hold_ms: 20, pause_ms: 0 };

/// The exit status if no scenario matches.
const NONE_RAN: u8 = 3;

/// The name `a job/7`, as written in the store.
const NAME: &str = "a%20job%2F7";

#[derive(Clone, Debug)]
pub(crate) enum Scenario {
    /// Turns of all of these, two processes each.
    Turns(Vec<Kind>),
    /// The next client is granted in time.
    HolderKilled { dead: Kind, next: Kind },
    /// A waiter between two others is killed.
    WaiterKilled { dead: Kind, others: Kind },
    /// Keys that belong to no client.
    Junk(Kind),
    /// kazoo ignores distlock's nodes; distlock sees kazoo's.
    OneWay,
    /// distlock's waiter is requested to release.
    RevokedStays,
    /// Curator's waiter is requested to release, and leaves.
    RevokedLeaves,
    /// distlock's waiter is requested to release, and its client is closed.
    RevokedCloses,
    /// Turns in an election.
    Campaigns(Vec<Kind>),
    /// The next client is elected in time.
    LeaderKilled { dead: Kind, next: Kind },
    /// Each observer sees every leader.
    Observers,
    /// Turns without a bridge.
    Apart(Vec<Kind>),
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list =
            |kinds: &[Kind]| kinds.iter().map(Kind::to_string).collect::<Vec<_>>().join(" + ");
        match self {
            Self::Turns(kinds) => write!(f, "turns, {}", list(kinds)),
            Self::HolderKilled { dead, next } => {
                write!(f, "holder killed, {dead} before {next}")
            }
            Self::WaiterKilled { dead, others } => {
                write!(f, "waiter killed, {dead} between {others}")
            }
            Self::Junk(kind) => write!(f, "junk, distlock + {kind}"),
            Self::OneWay => write!(f, "one way, distlock behind kazoo-alone"),
            Self::RevokedStays => write!(f, "revoked, distlock stays"),
            Self::RevokedLeaves => write!(f, "revoked, curator leaves"),
            Self::RevokedCloses => write!(f, "revoked, distlock leaves"),
            Self::Campaigns(kinds) => write!(f, "campaigns, {}", list(kinds)),
            Self::LeaderKilled { dead, next } => {
                write!(f, "leader killed, {dead} before {next}")
            }
            Self::Observers => write!(f, "observers, distlock + go + etcdctl"),
            Self::Apart(kinds) => write!(f, "no bridge, {} overlap", list(kinds)),
        }
    }
}

impl Scenario {
    fn all(store: &Store) -> Vec<Self> {
        let theirs = match store.backend() {
            Some(Backend::Etcd) => vec![Go, Etcdctl],
            Some(Backend::ZooKeeper) => vec![Curator, Kazoo, KazooAsCurator, ZooKeeperClient],
            None => return bridge::scenarios(),
        };
        let mut all = Vec::new();
        for kind in theirs.iter().copied() {
            all.extend([
                Self::Turns(vec![Distlock, kind]),
                Self::HolderKilled { dead: Distlock, next: kind },
                Self::HolderKilled { dead: kind, next: Distlock },
                Self::WaiterKilled { dead: Distlock, others: kind },
                Self::WaiterKilled { dead: kind, others: Distlock },
                Self::Junk(kind),
            ]);
        }
        // Curator and zookeeper-client ignore kazoo's own nodes: that is between those libraries.
        let seen_by_all = theirs.iter().copied().filter(|kind| *kind != Kazoo);
        let together: Vec<Kind> = std::iter::once(Distlock).chain(seen_by_all).collect();
        all.push(Self::Turns(together.clone()));
        if theirs.contains(&Go) {
            all.extend(theirs.iter().map(|kind| Self::Campaigns(vec![Distlock, *kind])));
            all.push(Self::Campaigns(together));
            // `etcdctl elect` has no option for its TTL, which is a minute.
            all.push(Self::LeaderKilled { dead: Distlock, next: Etcdctl });
            all.push(Self::LeaderKilled { dead: Distlock, next: Go });
            all.push(Self::LeaderKilled { dead: Go, next: Distlock });
            all.push(Self::Observers);
        } else {
            all.extend([
                Self::OneWay,
                Self::RevokedStays,
                Self::RevokedLeaves,
                Self::RevokedCloses,
            ]);
        }
        all
    }

    async fn run(&self, stage: &mut Stage<'_>) -> Result<String> {
        let backend = stage.store.backend();
        match self {
            Self::Turns(kinds) if backend.is_none() => bridge::turns(stage, kinds).await,
            Self::Apart(kinds) => bridge::apart(stage, kinds).await,
            Self::Turns(kinds) | Self::Campaigns(kinds) => turns(stage, kinds).await,
            Self::HolderKilled { dead, next } if backend.is_none() => {
                bridge::holder_killed(stage, *dead, *next).await
            }
            Self::HolderKilled { dead, next } | Self::LeaderKilled { dead, next } => {
                holder_killed(stage, *dead, *next).await
            }
            Self::WaiterKilled { dead, others } => waiter_killed(stage, *dead, *others).await,
            Self::Junk(kind) => match backend {
                Some(Backend::ZooKeeper) => junk_on_zookeeper(stage, *kind).await,
                _ => junk_on_etcd(stage, *kind).await,
            },
            Self::OneWay => one_way(stage).await,
            Self::RevokedStays => revoking::stays(stage).await,
            Self::RevokedLeaves => revoking::leaves(stage).await,
            Self::RevokedCloses => revoking::closes(stage).await,
            Self::Observers => elections::observers(stage).await,
        }
    }

    fn queue(&self) -> String {
        match self {
            Self::Campaigns(_) | Self::LeaderKilled { .. } | Self::Observers => {
                format!("{NAME}!election")
            }
            _ => NAME.to_owned(),
        }
    }
}

/// Runs all scenarios whose line contains `only`. Returns 0 if all passed, 1 otherwise.
pub(crate) async fn run_all(container: &str, url: &str, only: &str) -> Result<u8> {
    let store = Store::connect(url).await?;
    let scheme = store.backend().map_or("redis", Backend::scheme);
    let mut status = NONE_RAN;
    for (number, scenario) in Scenario::all(&store).iter().enumerate() {
        let name = format!("{scheme}: {scenario}");
        if !name.contains(only) {
            continue;
        }
        let namespace = format!("/interop-{}-{number}", std::process::id());
        let mut stage = Stage::new(&store, container, url, namespace, &scenario.queue());
        let began = Instant::now();
        let outcome = scenario.run(&mut stage).await;
        let outcome = verdict(&stage, scenario, outcome).await;
        let seconds = began.elapsed().as_secs_f32();
        match outcome {
            Ok(figures) => {
                if status == NONE_RAN {
                    status = 0;
                }
                println!("PASS {name}: {figures} ({seconds:.1} s)");
            }
            Err(error) => {
                status = 1;
                println!("FAIL {name}: {error} ({seconds:.1} s)");
            }
        }
    }
    Ok(status)
}

/// Returns the result of the scenario with violations of the history and leftover keys.
async fn verdict(
    stage: &Stage<'_>,
    scenario: &Scenario,
    outcome: Result<String>,
) -> Result<String> {
    let History { holds, violations } = stage.history();
    let mut wrong = Vec::new();
    let figures = outcome.unwrap_or_else(|error| {
        wrong.push(error.to_string());
        String::new()
    });
    if !violations.is_empty() && !matches!(scenario, Scenario::Apart(_)) {
        let shown = violations.iter().take(3).map(String::as_str).collect::<Vec<_>>().join("; ");
        let (count, grants) = (violations.len(), holds.len());
        wrong.push(format!("{count} violations in {grants} grants: {shown}"));
    }
    // After a failure, workers were interrupted and leave keys behind.
    let (left, freed) =
        (stage.store.clear(&stage.namespace).await, stage.store.free(bridge::KEY).await);
    if wrong.is_empty() {
        let mut left = left?;
        left.extend(freed?.then(|| bridge::KEY.to_owned()));
        if !left.is_empty() {
            wrong.push(format!("left in the store: {left:?}"));
        }
    }
    if wrong.is_empty() { Ok(figures) } else { Err(wrong.join("; ").into()) }
}

/// The total number of grants, the hold time, and the pause between holds.
pub(crate) struct Turns {
    pub(crate) grants: usize,
    pub(crate) hold_ms: u32,
    pub(crate) pause_ms: u32,
}

impl Turns {
    /// All workers contend, two processes of each kind.
    pub(crate) async fn take(&self, stage: &mut Stage<'_>, kinds: &[Kind]) -> Result<()> {
        let mut workers = stage.start_all(kinds.iter().chain(kinds).copied()).await?;
        let Self { grants, hold_ms, pause_ms } = self;
        let mut run = format!("run {} {hold_ms}", grants.div_ceil(workers.len()));
        if *pause_ms > 0 {
            run += &format!(" {pause_ms}");
        }
        for worker in &mut workers {
            worker.tell(&run).await?;
        }
        for worker in &mut workers {
            worker.until("done").await?;
        }
        finish(stage, workers).await
    }
}

async fn turns(stage: &mut Stage<'_>, kinds: &[Kind]) -> Result<String> {
    TURNS.take(stage, kinds).await?;
    let (shares, listed) = stage.shares();
    let most = shares.iter().max().copied().unwrap_or_default();
    let fair = shares.iter().all(|share| share * 5 >= most);
    good_or(fair, "unfair", format!("{} grants; {listed}", stage.history().holds.len()))
}

/// The next client is granted when the store has ended the dead one's session, and not before.
async fn holder_killed(stage: &mut Stage<'_>, dead: Kind, next: Kind) -> Result<String> {
    let mut holder = stage.start(dead, SHORT).await?;
    let mut waiter = stage.start(next, SHORT).await?;
    holder.tell_until("lock", "grant").await?;
    waiter.tell("lock").await?;
    stage.store.queue_of(&stage.path, 2).await?;
    let killed = holder.kill().await?;
    let grant = waiter.until("grant").await?;
    let waited = Duration::from_nanos(grant.at.saturating_sub(killed));
    waiter.tell_until("unlock", "done").await?;
    finish(stage, vec![waiter]).await?;
    // Keepalives are sent every third of the TTL or more often.
    granted_after_a_kill(waited, waited >= SHORT / 2)
}

/// The waiter behind a dead waiter is granted after the holder, and the order is kept.
async fn waiter_killed(stage: &mut Stage<'_>, dead: Kind, others: Kind) -> Result<String> {
    let mut holder = stage.start(others, SHORT).await?;
    let mut middle = stage.start(dead, SHORT).await?;
    let mut behind = stage.start(others, SHORT).await?;
    let mut last = stage.start(dead, SHORT).await?;
    holder.tell_until("lock", "grant").await?;
    for (ahead, worker) in [&mut middle, &mut behind, &mut last].into_iter().enumerate() {
        worker.tell("lock").await?;
        stage.store.queue_of(&stage.path, ahead + 2).await?;
    }
    middle.kill().await?;
    stage.store.queue_of(&stage.path, 3).await?;
    // The deletion of that key wakes the waiter behind it, which must not take it for the holder's.
    tokio::time::sleep(WATCHED).await;
    holder.tell_until("unlock", "done").await?;
    for worker in [&mut behind, &mut last] {
        worker.turn().await?;
    }
    finish(stage, vec![holder, behind, last]).await?;
    in_order(stage, &[0, 2, 3])
}

/// Nodes of no waiters, before and between waiters.
async fn junk_on_zookeeper(stage: &mut Stage<'_>, kind: Kind) -> Result<String> {
    // Curator counts every child, and sorts by the part after `lock-`, or by the whole name: a node
    // that sorts before the numbers would block it for ever.
    let junk = ["junk", "lock-of", "zlock-x", "latch-0000000000", "_c_u-__READ__0000000001"];
    let mut put = Vec::new();
    let mut workers = stage.start_all([kind, Distlock, kind, Distlock]).await?;
    for (ahead, name) in junk.iter().enumerate() {
        let key = format!("{}/{name}", stage.path);
        stage.store.queues()?.put(&key).await?;
        put.push(key);
        if let Some(worker) = workers.get_mut(ahead) {
            worker.tell("lock").await?;
            stage.store.queue_of(&stage.path, ahead + 1).await?;
        }
    }
    for worker in &mut workers {
        worker.turn().await?;
    }
    for key in &put {
        stage.store.queues()?.delete(key).await?;
    }
    finish(stage, workers).await?;
    in_order(stage, &[0, 1, 2, 3])
}

/// Keys without a lease: distlock ignores them. Other clients wait for every key ahead, so they
/// have to join before the junk.
async fn junk_on_etcd(stage: &mut Stage<'_>, kind: Kind) -> Result<String> {
    let (first, second) = (format!("{}/junk", stage.path), format!("{}/0", stage.path));
    let mut workers = stage.start_all([kind, Distlock, Distlock, kind]).await?;
    for (ahead, worker) in workers[..3].iter_mut().enumerate() {
        worker.tell("lock").await?;
        stage.store.queue_of(&stage.path, ahead + 1).await?;
        stage.store.queues()?.put(if ahead == 0 { &first } else { &second }).await?;
    }
    for worker in &mut workers[..3] {
        worker.turn().await?;
    }
    workers[3].tell("lock").await?;
    stage.store.queue_of(&stage.path, 1).await?;
    for key in [first, second] {
        stage.store.queues()?.delete(&key).await?;
    }
    workers[3].turn().await?;
    finish(stage, workers).await?;
    in_order(stage, &[0, 1, 2, 3])
}

/// Unmodified kazoo ignores distlock's nodes. distlock waits for kazoo's, and is not misled when a
/// client dies between the two.
async fn one_way(stage: &mut Stage<'_>) -> Result<String> {
    let mut holder = stage.start(KazooAlone, SHORT).await?;
    let mut middle = stage.start(KazooAlone, SHORT).await?;
    let mut ours = stage.start(Distlock, SHORT).await?;
    holder.tell_until("lock", "grant").await?;
    for (ahead, worker) in [&mut middle, &mut ours].into_iter().enumerate() {
        worker.tell("lock").await?;
        stage.store.queue_of(&stage.path, ahead + 2).await?;
    }
    tokio::time::sleep(WATCHED).await;
    middle.kill().await?;
    stage.store.queue_of(&stage.path, 2).await?;
    tokio::time::sleep(WATCHED).await;
    holder.tell_until("unlock", "done").await?;
    ours.turn().await?;
    finish(stage, vec![holder, ours]).await?;
    in_order(stage, &[0, 2])
}

/// Waits for an empty queue, and ends all workers in good order.
pub(crate) async fn finish(stage: &Stage<'_>, workers: Vec<Worker>) -> Result<()> {
    stage.store.queue_of(&stage.path, 0).await?;
    for worker in workers {
        worker.end().await?;
    }
    Ok(())
}

/// Checks that these workers, by number, were granted in this order.
fn in_order(stage: &Stage<'_>, expected: &[usize]) -> Result<String> {
    let granted: Vec<_> = stage.history().holds.iter().map(|hold| hold.worker).collect();
    let names = granted.iter().map(|worker| stage.fleet.names[*worker].as_str());
    let order = names.collect::<Vec<_>>().join(", ");
    good_or(granted == expected, "out of order", order)
}

/// A grant after a killed holder must not come early, nor much later than the TTL.
pub(crate) fn granted_after_a_kill(waited: Duration, late_enough: bool) -> Result<String> {
    let in_time = late_enough && waited <= SHORT + GRACE;
    let (waited, ttl) = (waited.as_secs_f32(), SHORT.as_secs());
    good_or(in_time, "not in time", format!("granted {waited:.1} s after the kill, TTL {ttl} s"))
}

/// Returns the outcome, or an error that says how it is wrong.
pub(crate) fn good_or(good: bool, wrong: &str, outcome: String) -> Result<String> {
    if good { Ok(outcome) } else { Err(format!("{wrong}: {outcome}").into()) }
}
