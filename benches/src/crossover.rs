//! Whether notifications or repeated attempts are better: the time between two holders, and the
//! number of requests in between.

use std::env::current_exe;

use distlock_testkit::clock::{now, sleep_until};

use crate::{
    Result,
    counters::Counters,
    link::{Program, Together},
    measures::{ASKED, LOAD, SERVER_CPU, Seen},
    slice::{Slice, gaps},
    task::{Fleet, Role, Subject, Task, Work},
    usage::cpu_of_group,
};

/// The number of processes of distlock's clients, because some of its work is done once per
/// process. Polling clients share nothing.
const PROCESSES: usize = 8;

/// The server's counters and processor time are read during the measured time, while all clients
/// wait.
pub(crate) async fn measure(
    task: Task,
    fleet: &Fleet,
    servers: &[String],
    server: Option<u32>,
    seen: &mut Seen,
) -> Result<(Slice, Counters)> {
    let (backend, subject) = (task.backend, task.subject);
    let count = if subject == Subject::Distlock { PROCESSES.min(fleet.contenders) } else { 1 };
    let role = |place| {
        let contenders = (fleet.contenders + place) / count;
        let work = Work::Fleet(Fleet { contenders, ..fleet.clone() });
        Role::Subject(Task { work, ..task.clone() })
    };
    let program = current_exe()?;
    let roles: Vec<_> = (0..count).map(role).collect();
    let mut processes = Together::start(Program::Build(&program), &roles).await?;
    let start = processes.begin().await?;
    let begin = start + fleet.warmup_ms * 1_000_000;
    let end = begin + fleet.run_ms * 1_000_000;
    let look = async || -> Result<(Counters, u64, u64)> {
        let cpu = server.and_then(|process| cpu_of_group(process).ok()).unwrap_or_default();
        Ok((Counters::read(backend, servers).await?, cpu, now()))
    };
    sleep_until(begin).await;
    let before = look().await?;
    sleep_until(end).await;
    let after = look().await?;

    let mut whole = processes.done().await?;
    processes.finish().await?;
    let within = |granted: u64| (begin..end).contains(&granted);
    whole.gap = gaps(&mut whole.stamps)?
        .into_iter()
        .filter_map(|(gap, [_, next])| within(next.granted).then_some(gap))
        .collect();
    whole.pairs = whole.stamps.iter().filter(|stamp| within(stamp.granted)).count() as u64;
    (whole.all_pairs, whole.time) = (whole.pairs, end - begin);

    // A busy server reports its counters late.
    let late = (end - begin) as f64 / (after.2 - before.2) as f64;
    let counted = after.0 - before.0;
    let watched = Some(counted.watch_messages).filter(|count| count.is_finite());
    let requests = match whole.asked {
        0 => (counted.requests + watched.unwrap_or_default()) * late,
        asked => asked as f64,
    };
    seen.other(LOAD, requests / (whole.time as f64 / 1e9));
    if whole.pairs > 0 {
        seen.other(ASKED, requests / whole.pairs as f64);
        if server.is_some() {
            seen.other(SERVER_CPU, (after.1 - before.1) as f64 / 1e3 / whole.pairs as f64);
        }
    }
    Ok((whole, counted))
}
