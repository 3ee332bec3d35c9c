//! The files that remain after a power loss at any moment, by the process's system calls. The test
//! needs `strace`.

use std::{fs, path::Path};

use distlock_testkit::{child::Child, orders::orders_for_life};
use fastrand::Rng;

use super::{
    power_loss::{Confirmed, DATA, FILE},
    strace::{self, Disk, Event},
};
use crate::common::{
    SOON, connect,
    sqlite::{Folder, url},
    within,
};

const VARIABLE: &str = "DISTLOCK_SQLITE_POWER";

/// The prefix of the lines in which a process prints its confirmed operations.
const CONFIRMED: &str = "confirmed: ";

/// Not a test: the process whose writes are traced.
#[test]
fn job_that_loses_its_power() {
    let Ok(job) = std::env::var(VARIABLE) else { return };
    let _orders = orders_for_life();
    let [folder, token, written] = job.split(' ').collect::<Vec<_>>().try_into().expect("three");
    let [token, written] = [token, written].map(|number| number.parse().expect("a number"));
    let mut confirmed = Confirmed { token, written };
    let work = async {
        let client = connect(&url(&Path::new(folder).join(FILE)), SOON * 6).await;
        for round in 0..14 {
            let guards = confirmed.lock(&client, 1 + round * 53 % 160).await;
            println!("\n{CONFIRMED}{} {}", confirmed.token, confirmed.written);
            if round % 3 == 0 {
                let guard = guards.get("lock-0").expect("one of them");
                let longer = vec![0; confirmed.written as usize + 1];
                guard.put(DATA, longer).await.expect("written");
                confirmed.written += 1;
                println!("\n{CONFIRMED}{} {}", confirmed.token, confirmed.written);
            }
            guards.unlock().await.expect("released");
        }
        // Ends as if killed: a client that closes the file would checkpoint the WAL.
        std::process::exit(0);
    };
    tokio::runtime::Runtime::new().expect("a runtime").block_on(work);
}

/// The system calls of three successive processes decide what is on disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_and_writes_outlast_a_loss_of_power() {
    let folder = Folder::new();
    let mut random = Rng::new();
    let (mut disk, mut confirmed, mut cuts) = (Disk::default(), Confirmed::default(), 0);
    for process in 0..3 {
        let log = folder.path(&format!("log-{process}"));
        let program = std::env::current_exe().expect("this binary");
        let mut command = strace::command(&log, &program);
        let module = module_path!().split_once("::").expect("a path").1;
        let name = format!("{module}::job_that_loses_its_power");
        let Confirmed { token, written } = confirmed;
        command
            .args(["--exact", &name, "--nocapture", "--test-threads=1"])
            .env(VARIABLE, format!("{} {token} {written}", folder.path("").display()));
        let mut child = Child::start(&mut command).expect("strace, which has to be installed");
        let ended =
            within(SOON * 12, "the process ends", child.wait()).await.expect("an exit status");
        assert!(ended.success(), "{ended}");
        let log = fs::read(&log).expect("a log");
        for event in strace::events(&log, &folder.path("")) {
            let mut confirms = false;
            if let Event::Printed(line) = &event
                && let Some(printed) = line.strip_prefix(CONFIRMED)
            {
                let (token, written) = printed.split_once(' ').expect("two numbers");
                let [token, written] = [token, written].map(|word| word.parse().expect("a number"));
                confirmed = Confirmed { token, written };
                confirms = true;
            }
            let flushed = matches!(event, Event::Flushed(_));
            disk.take(event);
            let chance = if confirms || flushed { 0.5 } else { 0.01 };
            if random.f64() < chance {
                cuts += 1;
                let left = Folder::new();
                let kept = [0.0, 0.5, 0.9, 1.0][random.usize(..4)];
                disk.leave(&left.path(""), &mut random, kept);
                confirmed.is_kept(&left, &format!("process {process}, cut {cuts}")).await;
            }
        }
    }
    assert!(confirmed.token > 2000 && confirmed.written > 10 && cuts > 30, "{confirmed:?} {cuts}");
}
