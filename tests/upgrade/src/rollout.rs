//! Replaces workers of one build by workers of the other, one by one, while they contend.

use distlock_testkit::{Result, backend::Backend};
use tokio::{task::JoinSet, time::Instant};

use crate::{
    args::{HOLD, Plan, Task},
    check::{Verdict, judge},
    fleet::Contest,
    store::emptied,
    takeover,
};

/// The number of workers at once.
pub(crate) const WORKERS: usize = 4;
/// The worker that is killed, while the others are ordered to finish.
const KILLED: usize = 1;
/// The number of violations to print for a rollout.
const SHOWN: usize = 10;

const HEAD: &str = "\
| store | primitive | order | grants | old | new | new's share of the mixed (fair) \
| gave up | s | violations |
|---|---|---|---:|---:|---:|---:|---:|---:|---:|";

/// Runs all rollouts, in both orders, with the stores in parallel. Prints a table; returns `true`
/// if all passed.
pub(crate) async fn all(plan: Plan) -> Result<bool> {
    println!("{HEAD}");
    let mut stores = JoinSet::new();
    for url in plan.urls.clone() {
        stores.spawn(on(plan.clone(), url));
    }
    let mut good = true;
    while let Some(done) = stores.join_next().await {
        good &= done??;
    }
    Ok(good)
}

async fn on(plan: Plan, url: String) -> Result<bool> {
    let (store, _) = url.split_once("://").ok_or("no such store")?;
    if ["postgres", "mysql"].contains(&store) {
        return takeover::on(&plan, &url).await;
    }
    let mut good = true;
    for primitive in &plan.primitives {
        for upgrade in [true, false] {
            let namespace = format!("/distlock-upgrade-{:016x}", fastrand::u64(..));
            let task = Task { url: url.clone(), namespace, primitive: *primitive, hold: HOLD };
            let (start, order) =
                (Instant::now(), if upgrade { "old to new" } else { "new to old" });
            let name = format!("{store} | {primitive} | {order}");
            let verdict =
                rollout(&plan, &task, upgrade).await.map_err(|error| format!("{name}: {error}"))?;
            good &= show(&name, start, &verdict);
        }
    }
    Ok(good)
}

/// Prints a line of the table; returns `true` if the rollout passed.
pub(crate) fn show(name: &str, start: Instant, verdict: &Verdict) -> bool {
    let Verdict { old, new, share, fair, gave_up, violations } = verdict;
    println!(
        "| {name} | {} | {old} | {new} | {share:.2} ({fair:.2}) | {gave_up} | {} | {} |",
        old + new,
        start.elapsed().as_secs(),
        violations.len()
    );
    violations.iter().take(SHOWN).for_each(|violation| eprintln!("{name}: {violation}"));
    violations.is_empty()
}

async fn rollout(plan: &Plan, task: &Task, upgrade: bool) -> Result<Verdict> {
    let program = |new| if new { &plan.new } else { &plan.old };
    let grants = plan.grants.div_ceil(WORKERS + 1);
    let mut fleet = Contest::new(task);
    for _ in 0..WORKERS {
        fleet.start(program(!upgrade), !upgrade)?;
    }
    for replaced in 0..WORKERS {
        fleet.settle().await?;
        fleet.stay(grants).await?;
        fleet.start(program(upgrade), upgrade)?;
        // It contends before the other one finishes.
        fleet.settle().await?;
        if replaced == KILLED {
            fleet.kill().await?;
        } else {
            fleet.finish().await?;
        }
    }
    fleet.settle().await?;
    fleet.stay(grants).await?;
    let mut verdict = judge(&fleet.end().await?, task.primitive.room());
    // The contents of a file are visible to distlock only.
    if Backend::split(&task.url).is_some()
        && let Err(left) = emptied(&task.url, &task.namespace).await
    {
        verdict.violations.push(left.to_string());
    }
    Ok(verdict)
}
