//! Several plain threads, without `async`, increment one counter under a lock.
//!
//! `cargo run --features blocking --example threads`

#![allow(clippy::expect_used)]

use std::{sync::atomic::AtomicU64, sync::atomic::Ordering::Relaxed, thread};

use distlock::{Client, Result, blocking::Wait};

static COUNTER: AtomicU64 = AtomicU64::new(0);

fn main() -> Result<()> {
    let counted = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    });
    counted?;
    assert_eq!(COUNTER.load(Relaxed), 100);
    println!("four threads counted to {}", COUNTER.load(Relaxed));
    Ok(())
}

fn count() -> Result<()> {
    let client = Client::connect("memory://threads").wait()?;
    for _ in 0..25 {
        let guard = client.mutex("counter").lock().wait()?;
        // Reading and writing are two steps. Without the lock, increments would be lost.
        let count = COUNTER.load(Relaxed);
        thread::yield_now();
        guard.run_blocking(|_| COUNTER.store(count + 1, Relaxed)).expect("it is held");
        guard.unlock().wait()?;
    }
    client.close().wait()
}
