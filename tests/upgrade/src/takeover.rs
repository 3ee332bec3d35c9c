//! Starts workers of the new build while workers of the old one hold and wait, for builds that may
//! not share a lock: the new build takes over the tables.

use distlock_testkit::Result;
use tokio::time::Instant;

use crate::{
    args::{Plan, Task},
    check::{Verdict, taken_over},
    fleet::Contest,
    rollout::{WORKERS, show},
};

/// The longest hold of the old workers, in milliseconds: some of them hold when they are stopped,
/// and would continue.
const HOLD: u64 = 1000;

/// Runs all primitives, each in its own database, whose name ends with the primitive's. Prints
/// lines of the table; returns `true` if all passed.
pub(crate) async fn on(plan: &Plan, url: &str) -> Result<bool> {
    let (store, _) = url.split_once("://").ok_or("no such store")?;
    let mut good = true;
    for primitive in &plan.primitives {
        let namespace = "/distlock-upgrade".to_owned();
        let url = format!("{url}_{primitive}");
        let task = Task { url, namespace, primitive: *primitive, hold: HOLD };
        let (start, name) = (Instant::now(), format!("{store} | {primitive} | taken over"));
        let verdict = takeover(plan, &task).await.map_err(|error| format!("{name}: {error}"))?;
        good &= show(&name, start, &verdict);
    }
    Ok(good)
}

async fn takeover(plan: &Plan, task: &Task) -> Result<Verdict> {
    let mut fleet = Contest::new(task);
    for _ in 0..WORKERS {
        fleet.start(&plan.old, false)?;
    }
    fleet.settle().await?;
    fleet.retire();
    for _ in 0..WORKERS {
        fleet.start(&plan.new, true)?;
    }
    fleet.settle().await?;
    fleet.stay(plan.grants.div_ceil(100)).await?;
    Ok(taken_over(&fleet.end().await?, task.primitive.room()))
}
