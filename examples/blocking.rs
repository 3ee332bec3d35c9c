//! Acquires locks in plain threads, without `async` and without a runtime.
//!
//! `cargo run -p distlock --features blocking --example blocking` needs only Rust. With a server:
//! `cargo run -p distlock --features blocking,etcd --example blocking -- etcd://127.0.0.1:2379`

use std::{thread, time::Duration};

use distlock::{Client, blocking::Wait};

fn main() -> distlock::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://blocking".to_owned());
    println!("store: {url}");

    // Two threads take turns, each with its own client, as if on two machines.
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
        None => println!("carol: no other caller gets the lock"),
        Some(_) => println!("carol: this is impossible"),
    }

    // A closure cannot be stopped when the lock is lost. It checks the lock, and the result shows
    // whether the lock was held to the end.
    let work = guard.run_blocking(|held| {
        let rows = (1..=5).take_while(|_| held.is_valid());
        rows.map(|row| thread::sleep(Duration::from_millis(row))).count()
    });
    match work {
        Ok(rows) => println!("carol: {rows} rows, and the lock was held throughout"),
        Err(lost) => println!("carol: {lost}; another client may have worked at the same time"),
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
