//! Locks from plain threads: no `async`, no runtime of one's own.
//!
//! `cargo run --features blocking --example blocking` needs nothing but Rust. With a server:
//! `cargo run --features blocking,etcd,zookeeper --example blocking -- etcd://127.0.0.1:2379`

use std::{thread, time::Duration};

use distlock::{Client, blocking::Wait};

fn main() -> distlock::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://blocking".to_owned());
    println!("store: {url}");

    // Two threads take turns, each with a client of its own, as if on two machines.
    thread::scope(|scope| {
        let turns = ["alice", "bob"].map(|worker| {
            let url = &url;
            scope.spawn(move || take_turns(worker, url))
        });
        turns.into_iter().try_for_each(|turns| {
            turns.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })?;

    let client = Client::builder(&url).owner("carol").connect().wait()?;
    let mutex = client.mutex("blocking-report");
    let guard = mutex.lock().wait()?;
    match mutex.lock_timeout(Duration::from_millis(50)).wait()? {
        None => println!("carol: nobody gets it meanwhile"),
        Some(_) => println!("carol: this cannot be"),
    }

    // A closure cannot be stopped when the lock is lost: it asks, and in the end is told.
    let work = guard.run_blocking(|held| {
        let rows = (1..=5).take_while(|_| held.is_valid());
        rows.map(|row| thread::sleep(Duration::from_millis(row))).count()
    });
    match work {
        Ok(rows) => println!("carol: {rows} rows, and the lock was held all the time"),
        Err(lost) => println!("carol: {lost}; another one may have been at work as well"),
    }
    guard.unlock().wait()?;
    client.close().wait()
}

fn take_turns(worker: &str, url: &str) -> distlock::Result<()> {
    let client = Client::builder(url).owner(worker).connect().wait()?;
    for _ in 0..3 {
        let guard = client.mutex("blocking-report").lock().wait()?;
        println!("{worker}: granted, token {}", guard.fencing_token());
        thread::sleep(Duration::from_millis(20)); // the work
        guard.unlock().wait()?;
    }
    client.close().wait()
}
