//! `--once-per`: several hosts start the same job at about the same time, and it runs once.

use std::{collections::BTreeSet, env, fs, path::Path, time::Duration};

use distlock_testkit::{backend::Backend, clock};
use futures_util::future::join_all;
use tempfile::TempDir;

use crate::store::{Store, output_of};

/// The number of hosts, and the difference between their clocks.
const HOSTS: u32 = 6;
const CLOCK_OFFSET: Duration = Duration::from_millis(20);
/// A delay of more than a tenth of this may leave a period out.
const PERIOD: Duration = Duration::from_secs(3);

/// Returns the number of periods, which `DISTLOCK_PERIODS` can lower.
fn periods() -> u32 {
    let fewer = env::var("DISTLOCK_PERIODS").map(|text| text.parse().expect("a number"));
    fewer.unwrap_or(50)
}

/// Runs a host, which starts the job at each full period of its clock. Returns the turns in which
/// the machine started it late.
async fn host(store: &Store, number: u32, start: u64, runs: &Path) -> Vec<u32> {
    let period = format!("{}ms", PERIOD.as_millis());
    let (record, mut late) = (format!("echo run >>{}", runs.display()), Vec::new());
    for turn in 0..periods() {
        let at = PERIOD * turn + CLOCK_OFFSET * number;
        let at = start + u64::try_from(at.as_nanos()).expect("soon");
        clock::sleep_until(at).await;
        let args = ["run", "job", "--once-per", &period, "--", "sh", "-c", &record];
        let job = store.distlock(&args).spawn().expect("the process starts");
        if clock::now() - at > u64::try_from((PERIOD / 20).as_nanos()).expect("soon") {
            late.push(turn);
        }
        let output = output_of(job).await;
        // A lost lock alone does not make the period fail.
        assert!(matches!(output.code(), 0 | 70), "host {number}, turn {turn}: {output:?}");
    }
    late
}

async fn fire(store: Store, delay: Duration) {
    let place = TempDir::new().expect("a folder");
    let runs = place.path().join("runs");
    let start = clock::now() + u64::try_from(delay.as_nanos()).expect("soon");
    let late = join_all((0..HOSTS).map(|number| host(&store, number, start, &runs))).await;
    let late: BTreeSet<_> = late.into_iter().flatten().collect();
    let runs = fs::read_to_string(&runs).expect("the command ran").lines().count();
    let periods = periods() as usize;
    println!("{}: {runs} runs in {periods} periods; hosts were late in {late:?}", store.backend);
    // Never twice. A period is left out only if a host was late, which counts for the next turn.
    assert!(runs <= periods);
    assert!(runs + late.len() >= periods);
}

/// Both stores at once, because this is the longest of all tests.
#[tokio::test]
async fn a_job_runs_once_a_period_on_six_hosts() {
    let stores = join_all(Backend::BOTH.map(Store::start)).await;
    // Alternating, because both share this machine.
    let delays = [PERIOD / 4, PERIOD * 3 / 4];
    join_all(stores.into_iter().zip(delays).map(|(store, delay)| fire(store, delay))).await;
}
