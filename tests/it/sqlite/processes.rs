//! Several processes on one file: this test binary, started again.

use std::{collections::HashSet, fs, path::Path, time::Duration};

use distlock::{Client, LostReason, Mutex};
use distlock_testkit::{child::Child, orders::orders_for_life};
use rusqlite::TransactionBehavior::Immediate;
use tokio::process::Command;

use crate::common::{
    SOON, cases_for, connect, locked, locked_at_last,
    sqlite::{Folder, Sqlite, dial, url},
    take_turn, within,
};

// These cases need processes, but no network.
cases_for! { Sqlite, beside_others,
    late::writes_of_a_holder_that_was_stopped_are_refused,
    network::guard_of_a_paused_process_is_lost_on_resume,
    network::exiting_process_frees_its_lock,
}

const VARIABLE: &str = "DISTLOCK_SQLITE_JOB";
const TTL: Duration = Duration::from_secs(2);
const FILE: &str = "locks.db";

/// The output of a process.
const HELD: &str = "job held";
const COUNTED: &str = "job counted: ";
const FELL: &str = "job met a higher token";
const OPEN: &str = "job in its transaction";
const TRIED: &str = "job tried: ";

/// Not a test: the job of the processes that the tests below start.
#[test]
fn job_on_a_file() {
    let Ok(job) = std::env::var(VARIABLE) else { return };
    let [kind, folder, rounds] = job.split(' ').collect::<Vec<_>>().try_into().expect("three");
    let _orders = orders_for_life();
    let work = work(kind, Path::new(folder), rounds.parse().expect("a number"));
    tokio::runtime::Runtime::new().expect("a runtime").block_on(work);
}

async fn work(kind: &str, folder: &Path, rounds: usize) {
    if kind == "try" {
        let tried = match Client::connect(url(&folder.join(FILE))).await {
            Ok(client) => client.mutex("shared").try_lock().await,
            Err(error) => Err(error),
        };
        println!("\n{TRIED}{tried:?}");
        return;
    }
    // A process that is not killed has a long TTL for a busy machine.
    let client = client(folder, if rounds < usize::MAX { TTL * 15 } else { TTL }).await;
    let mutex = client.mutex("shared");
    if kind == "count" {
        for _ in 0..rounds {
            count(&mutex, folder).await;
        }
        return client.close().await.expect("closed");
    }
    // A process that is killed or stopped within its own transaction.
    let guard = mutex.lock().await.expect("granted");
    let mut file = dial(&folder.join(FILE));
    let transaction = file.transaction_with_behavior(Immediate).expect("begun");
    distlock::sqlite::check(&guard, &transaction).expect("the lock is held");
    let write = "INSERT INTO distlock_data VALUES ('/job', 'half', x'00', 0)";
    transaction.execute(write, []).expect("written");
    println!("\n{OPEN}");
    std::future::pending().await
}

async fn client(folder: &Path, ttl: Duration) -> Client {
    connect(&url(&folder.join(FILE)), ttl).await
}

/// Increments a number in a file, protected by the lock alone.
async fn count(mutex: &Mutex, folder: &Path) {
    // The session may expire on a busy machine.
    let guard = locked_at_last(mutex).await;
    println!("\n{HELD}");
    let (file, new) = (folder.join("count"), folder.join(format!("new-{}", std::process::id())));
    let before = fs::read_to_string(&file).unwrap_or_else(|_| "0 0".into());
    let (count, last) = before.split_once(' ').expect("two numbers");
    let (count, last): (u64, u64) = (count.parse().expect("one"), last.parse().expect("other"));
    let token = guard.fencing_token().as_u64();
    if token <= last {
        println!("\n{FELL}");
    }
    tokio::task::yield_now().await;
    // Atomically, because the process may be killed.
    fs::write(&new, format!("{} {token}", count + 1)).expect("written");
    fs::rename(&new, &file).expect("renamed");
    println!("\n{COUNTED}{}", count + 1);
    // The session may have expired on a busy machine; no other client was granted the lock before.
    let _ = guard.unlock().await;
}

fn start(kind: &str, folder: &Folder, rounds: usize) -> Child {
    start_by(Child::again().expect("this binary"), kind, folder, rounds)
}

/// Starts this binary by `command`, with further arguments.
fn start_by(mut command: Command, kind: &str, folder: &Folder, rounds: usize) -> Child {
    let job = format!("{kind} {} {rounds}", folder.path("").display());
    let name = format!("{}::job_on_a_file", module_path!().split_once("::").expect("a path").1);
    command.args(["--exact", &name, "--nocapture", "--test-threads=1"]).env(VARIABLE, job);
    Child::start(&mut command).expect("a process")
}

/// Returns a process within its own transaction.
async fn in_a_transaction(folder: &Folder) -> Child {
    let mut process = start("open", folder, usize::MAX);
    let opened = process.until(|line| line.contains(OPEN).then_some(()));
    within(SOON, "the transaction begins", opened).await.expect("the process runs");
    process
}

/// Returns all numbers that a process counts until it ends.
async fn counted(mut process: Child) -> Vec<u64> {
    let mut counted = Vec::new();
    while let Some(line) = process.line().await.expect("its output") {
        assert!(!line.contains(FELL), "a token fell");
        if let Some((_, count)) = line.split_once(COUNTED) {
            counted.push(count.parse().expect("a number"));
        }
    }
    assert!(process.wait().await.expect("the process ends").success());
    counted
}

fn is_sound(folder: &Folder) -> bool {
    let file = dial(&folder.path(FILE));
    let output: String =
        file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a result");
    output == "ok"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_never_overlap() {
    const PROCESSES: u64 = 4;
    const ROUNDS: u64 = 40;
    let folder = Folder::new();
    let all = (0..PROCESSES).map(|_| counted(start("count", &folder, ROUNDS as usize)));
    let all =
        within(SOON * 3, "all processes have counted", futures_util::future::join_all(all)).await;
    let mut numbers: Vec<_> = all.into_iter().flatten().collect();
    numbers.sort_unstable();
    assert_eq!(
        numbers,
        (1..=PROCESSES * ROUNDS).collect::<Vec<_>>(),
        "a number is missing or doubled"
    );
    assert!(is_sound(&folder));
}

/// Processes are killed as holders, and in the transactions that release the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_processes_are_succeeded() {
    let folder = Folder::new();
    let mut numbers = HashSet::new();
    for round in 0..5 {
        let mut process = start("count", &folder, usize::MAX);
        let mut expect_lines = async |count: usize, words: &str| {
            for _ in 0..count {
                let matched = process.until(|line| {
                    assert!(!line.contains(FELL), "a token fell");
                    if let Some((_, count)) = line.split_once(COUNTED) {
                        assert!(numbers.insert(count.to_owned()), "{count} a second time");
                    }
                    line.contains(words).then_some(())
                });
                within(SOON, "the process continues", matched).await.expect("the process runs");
            }
        };
        expect_lines(round + 1, COUNTED).await;
        expect_lines(1, if round % 2 == 0 { HELD } else { COUNTED }).await;
        process.kill().await.expect("the process ran");
    }
    assert!(is_sound(&folder));
    let client = client(&folder.path(""), TTL).await;
    // As soon as the last process's session is removed.
    take_turn(&client, "shared").await;
    client.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_killed_in_its_transaction_leaves_nothing() {
    let folder = Folder::new();
    let mut process = in_a_transaction(&folder).await;
    process.kill().await.expect("the process ran");
    let client = client(&folder.path(""), TTL).await;
    let guard = locked(&client, "shared").await;
    let written =
        dial(&folder.path(FILE))
            .query_row("SELECT count(*) FROM distlock_data", [], |row| row.get::<_, i64>(0));
    assert_eq!(written, Ok(0), "half a transaction");
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
    assert!(is_sound(&folder));
}

/// The stopped transaction blocks all writes, so no session is renewed. Holders are notified in
/// time, and no lock is granted. Once the process is killed, clients continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_stopped_in_its_transaction_makes_no_second_holder() {
    let folder = Folder::new();
    let client = client(&folder.path(""), TTL).await;
    let guard = client.mutex("other").lock().await.expect("granted");
    let mut process = in_a_transaction(&folder).await;
    process.stop().await.expect("the process runs");
    let reason = within(TTL + SOON, "the holder is notified", guard.lost()).await;
    assert_eq!(reason, LostReason::DeadlinePassed);
    let tried = client.mutex("other").lock_timeout(TTL / 2).await;
    assert!(!matches!(tried, Ok(Some(_))), "{tried:?}");
    process.kill().await.expect("the process ran");
    for name in ["other", "shared"] {
        take_turn(&client, name).await;
    }
    client.close().await.expect("closed");
}

/// systemd-nspawn, LXC and Incus mount a random file over the boot id of each container.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn container_with_its_own_boot_id_is_refused_by_name() {
    let folder = Folder::new();
    let client = client(&folder.path(""), TTL * 15).await;
    let guard = client.mutex("shared").lock().await.expect("granted");
    fs::write(folder.path("boot_id"), "6f1c8c5e-0000-4000-8000-000000000001\n").expect("written");
    let mount = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", mount]);
    command.arg(folder.path("boot_id")).arg(std::env::current_exe().expect("this binary"));
    let mut process = start_by(command, "try", &folder, 0);
    let tried = process.until(|line| line.strip_prefix(TRIED).map(str::to_owned));
    let tried = within(SOON, "the process tries", tried).await.expect("a container");
    assert!(tried.contains("boot_id") && tried.contains("systemd-nspawn"), "{tried}");
    assert!(guard.is_valid(), "the holder keeps its session");
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
}
