//! What is tried with each of the other clients. The outcome is a line for each scenario.

use std::{
    fmt,
    time::{Duration, Instant},
};

use distlock_testkit::{Result, backend::Backend};

use crate::{
    bridge, check, elections,
    fleet::{Kind, Stage, Worker},
    revoking,
    store::Store,
};

use Kind::{Curator, Distlock, Etcdctl, Go, Kazoo, KazooAlone, KazooAsCurator, ZooKeeperClient};

/// Longer than anything takes but a death.
pub(crate) const LONG: Duration = Duration::from_secs(10);
/// How long the lock of a dead client stays taken.
pub(crate) const SHORT: Duration = Duration::from_secs(4);
/// What servers and watchers may take on top of it, on a busy machine.
pub(crate) const GRACE: Duration = Duration::from_secs(3);
/// For how long something must not happen that would happen at once.
pub(crate) const WATCHED: Duration = Duration::from_millis(500);

const GRANTS: usize = 200;
/// How long each of those is held, in milliseconds: `etcdctl` needs about twice that to come back.
const HOLD_MS: u32 = 20;

/// The status if no scenario was meant.
pub(crate) const NONE_RAN: u8 = 3;

/// The name `a job/7`, as it is written in the store.
pub(crate) const NAME: &str = "a%20job%2F7";

#[derive(Clone, Debug)]
enum Scenario {
    /// Turns of all of these, two processes each.
    Turns(Vec<Kind>),
    HolderKilled {
        dead: Kind,
        next: Kind,
    },
    WaiterKilled {
        dead: Kind,
        others: Kind,
    },
    Junk(Kind),
    /// kazoo does not see us, we see it.
    OneWay,
    RevokedStays,
    RevokedLeaves,
    RevokedCloses,
    Campaigns(Vec<Kind>),
    LeaderKilled {
        dead: Kind,
        next: Kind,
    },
    Observers,
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list =
            |kinds: &[Kind]| kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(" + ");
        match self {
            Self::Turns(kinds) => write!(f, "turns, {}", list(kinds)),
            Self::HolderKilled { dead, next } => {
                write!(f, "holder killed, {} before {}", dead.name(), next.name())
            }
            Self::WaiterKilled { dead, others } => {
                write!(f, "waiter killed, {} between {}", dead.name(), others.name())
            }
            Self::Junk(kind) => write!(f, "junk, distlock + {}", kind.name()),
            Self::OneWay => write!(f, "one way, distlock behind kazoo-alone"),
            Self::RevokedStays => write!(f, "revoked, distlock stays"),
            Self::RevokedLeaves => write!(f, "revoked, curator leaves"),
            Self::RevokedCloses => write!(f, "revoked, distlock leaves"),
            Self::Campaigns(kinds) => write!(f, "campaigns, {}", list(kinds)),
            Self::LeaderKilled { dead, next } => {
                write!(f, "leader killed, {} before {}", dead.name(), next.name())
            }
            Self::Observers => write!(f, "observers, distlock + go + etcdctl"),
        }
    }
}

impl Scenario {
    fn all(backend: Backend) -> Vec<Self> {
        let theirs = match backend {
            Backend::Etcd => vec![Go, Etcdctl],
            Backend::ZooKeeper => vec![Curator, Kazoo, KazooAsCurator, ZooKeeperClient],
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
        // Curator and zookeeper-client overtake kazoo's own nodes, which is between them.
        let seen_by_all = theirs.iter().copied().filter(|kind| *kind != Kazoo);
        let together: Vec<Kind> = std::iter::once(Distlock).chain(seen_by_all).collect();
        all.push(Self::Turns(together.clone()));
        if backend == Backend::Etcd {
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
        match self {
            Self::Turns(kinds) | Self::Campaigns(kinds) => turns(stage, kinds).await,
            Self::HolderKilled { dead, next } | Self::LeaderKilled { dead, next } => {
                holder_killed(stage, *dead, *next).await
            }
            Self::WaiterKilled { dead, others } => waiter_killed(stage, *dead, *others).await,
            Self::Junk(kind) => match stage.store.backend() {
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

/// Runs all scenarios whose line has `only` in it. 0: all passed; 1: not all did.
pub(crate) async fn run_all(container: &str, url: &str, only: &str) -> Result<u8> {
    let store = Store::connect(url).await?;
    let Some(backend) = store.backend() else {
        return bridge::run_all(&store, container, url, only).await;
    };
    let scheme = backend.scheme();
    let mut status = NONE_RAN;
    for (number, scenario) in Scenario::all(backend).iter().enumerate() {
        let name = format!("{scheme}: {scenario}");
        if !name.contains(only) {
            continue;
        }
        let namespace = format!("/interop-{}-{number}", std::process::id());
        let mut stage = Stage::new(&store, container, url, namespace, &scenario.queue());
        let began = Instant::now();
        let outcome = scenario.run(&mut stage).await;
        let outcome = verdict(&stage, outcome).await;
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

/// What the scenario found, what the checker finds, and what is left in the store.
async fn verdict(stage: &Stage<'_>, outcome: Result<String>) -> Result<String> {
    let log = stage.log();
    let violations = check::violations(&log, stage.names());
    let mut wrong = Vec::new();
    let figures = outcome.unwrap_or_else(|error| {
        wrong.push(error.to_string());
        String::new()
    });
    if !violations.is_empty() {
        let shown = violations.iter().take(3).map(String::as_str).collect::<Vec<_>>().join("; ");
        wrong.push(format!(
            "{} violations in {} grants: {shown}",
            violations.len(),
            check::holds(&log).len()
        ));
    }
    // After a failure, workers were cut off and leave keys behind.
    let left = stage.store.clear(&stage.namespace).await;
    if wrong.is_empty() {
        let left = left?;
        if !left.is_empty() {
            wrong.push(format!("left in the store: {left:?}"));
        }
    }
    if wrong.is_empty() { Ok(figures) } else { Err(wrong.join("; ").into()) }
}

/// All of them take turns; two processes of each.
async fn turns(stage: &mut Stage<'_>, kinds: &[Kind]) -> Result<String> {
    let mut workers = Vec::new();
    for kind in kinds.iter().chain(kinds) {
        workers.push(stage.start(*kind, LONG).await?);
    }
    let rounds = GRANTS.div_ceil(workers.len());
    for worker in &mut workers {
        worker.tell(&format!("run {rounds} {HOLD_MS}")).await?;
    }
    for worker in &mut workers {
        worker.until("done").await?;
    }
    finish(stage, workers).await?;
    let log = stage.log();
    let (grants, shares) = (check::holds(&log).len(), check::shares(&log, stage.names().len()));
    let most = shares.iter().max().copied().unwrap_or_default();
    let told = stage
        .names()
        .iter()
        .zip(&shares)
        .map(|(name, share)| format!("{name} {share}"))
        .collect::<Vec<_>>();
    let told = format!("{grants} grants; when the first was done: {}", told.join(", "));
    if shares.iter().any(|share| share * 5 < most) {
        Err(format!("unfair: {told}").into())
    } else {
        Ok(told)
    }
}

/// The next one is granted when the store has ended the dead one's session, and not before.
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
    let told =
        format!("granted {:.1} s after the kill, TTL {} s", waited.as_secs_f32(), SHORT.as_secs());
    // Keepalives go out each third of the TTL or more often.
    if waited < SHORT / 2 || waited > SHORT + GRACE { Err(told.into()) } else { Ok(told) }
}

/// The one behind a dead waiter is granted after the holder, and the order stays.
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
    // That key's end wakes the one behind, which must not take it for the holder's.
    tokio::time::sleep(WATCHED).await;
    holder.tell_until("unlock", "done").await?;
    for worker in [&mut behind, &mut last] {
        worker.until("grant").await?;
        worker.tell_until("unlock", "done").await?;
    }
    finish(stage, vec![holder, behind, last]).await?;
    in_order(stage, &[0, 2, 3])
}

/// Nodes that are no waiters, before and between those that are.
async fn junk_on_zookeeper(stage: &mut Stage<'_>, kind: Kind) -> Result<String> {
    // Curator counts every child, and sorts by what follows `lock-`, or by the whole name: one that
    // sorts before the numbers would stop it for ever.
    let junk = ["junk", "lock-of", "zlock-x", "latch-0000000000", "_c_u-__READ__0000000001"];
    let mut put = Vec::new();
    let mut workers = Vec::new();
    for kind in [kind, Distlock, kind, Distlock] {
        workers.push(stage.start(kind, LONG).await?);
    }
    for (ahead, name) in junk.iter().enumerate() {
        let key = format!("{}/{name}", stage.path);
        stage.store.put(&key).await?;
        put.push(key);
        if let Some(worker) = workers.get_mut(ahead) {
            worker.tell("lock").await?;
            stage.store.queue_of(&stage.path, ahead + 1).await?;
        }
    }
    for worker in &mut workers {
        worker.until("grant").await?;
        worker.tell_until("unlock", "done").await?;
    }
    for key in &put {
        stage.store.remove(key).await?;
    }
    finish(stage, workers).await?;
    in_order(stage, &[0, 1, 2, 3])
}

/// Keys without a lease: we pass them over. The others wait for whatever is ahead of them, so that
/// they can only be there before the junk.
async fn junk_on_etcd(stage: &mut Stage<'_>, kind: Kind) -> Result<String> {
    let (first, second) = (format!("{}/junk", stage.path), format!("{}/0", stage.path));
    let mut workers = Vec::new();
    for kind in [kind, Distlock, Distlock, kind] {
        workers.push(stage.start(kind, LONG).await?);
    }
    for (ahead, worker) in workers[..3].iter_mut().enumerate() {
        worker.tell("lock").await?;
        stage.store.queue_of(&stage.path, ahead + 1).await?;
        stage.store.put(if ahead == 0 { &first } else { &second }).await?;
    }
    for worker in &mut workers[..3] {
        worker.until("grant").await?;
        worker.tell_until("unlock", "done").await?;
    }
    workers[3].tell("lock").await?;
    stage.store.queue_of(&stage.path, 1).await?;
    for key in [first, second] {
        stage.store.remove(&key).await?;
    }
    workers[3].until("grant").await?;
    workers[3].tell_until("unlock", "done").await?;
    finish(stage, workers).await?;
    in_order(stage, &[0, 1, 2, 3])
}

/// kazoo as it is does not look at our nodes. We wait for its, and are not fooled by one that dies
/// between it and us.
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
    ours.until("grant").await?;
    ours.tell_until("unlock", "done").await?;
    finish(stage, vec![holder, ours]).await?;
    in_order(stage, &[0, 2])
}

/// Nobody is in the queue any more, and all end well.
pub(crate) async fn finish(stage: &Stage<'_>, workers: Vec<Worker>) -> Result<()> {
    stage.store.queue_of(&stage.path, 0).await?;
    for worker in workers {
        worker.end().await?;
    }
    Ok(())
}

/// These workers, by number, were granted in this order.
fn in_order(stage: &Stage<'_>, expected: &[usize]) -> Result<String> {
    let granted: Vec<usize> = check::holds(&stage.log()).iter().map(|hold| hold.worker).collect();
    let order =
        granted.iter().map(|worker| stage.names()[*worker].as_str()).collect::<Vec<_>>().join(", ");
    if granted == expected { Ok(order) } else { Err(format!("out of order: {order}").into()) }
}
