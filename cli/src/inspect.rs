//! The subcommands that list or watch locks, queues and leaders.

use std::{future::Future, time::UNIX_EPOCH};

use distlock::{Client, Leader, LockInfo, QueueEntry};
use serde_json::{Value, json};

use crate::{
    args::Kind,
    exit::{ABSENT, Failure},
    output::Output,
    signals::Signals,
    wait::since,
};

/// Returns an entry as a JSON object.
pub(crate) fn object(entry: &QueueEntry) -> Value {
    let since = entry.since().and_then(|since| since.duration_since(UNIX_EPOCH).ok());
    json!({
        "position": entry.position(),
        "owner": entry.owner(),
        "token": entry.fencing_token().as_u64(),
        "key": entry.key(),
        "since": since.map(|since| since.as_secs_f64()),
    })
}

/// Returns the age of an entry as text.
pub(crate) fn age(entry: &QueueEntry) -> String {
    since(entry).map_or_else(|| "?".to_owned(), |age| age.to_string())
}

/// `ls`.
pub(crate) async fn list(client: &Client, prefix: &str, output: Output) -> Result<u8, Failure> {
    let locks = client.locks().await?;
    let chosen: Vec<_> = locks.iter().filter(|lock| lock.name().starts_with(prefix)).collect();
    let width = chosen.iter().map(|lock| lock.name().chars().count()).max().unwrap_or(0);
    for lock in chosen {
        let holders: Vec<_> = lock.holders().iter().map(QueueEntry::owner).collect();
        let oldest = lock.holders().first().map_or_else(String::new, age);
        let text = format!(
            "{:width$}  {:9}  {:>3} waiting  {oldest:>8}  {}",
            lock.name(),
            lock.kind(),
            lock.waiters().len(),
            holders.join(", "),
        );
        output.line(&text, &lock_object(lock))?;
    }
    Ok(0)
}

pub(crate) fn lock_object(lock: &LockInfo) -> Value {
    let holders: Vec<_> = lock.holders().iter().map(object).collect();
    json!({
        "name": lock.name(),
        "kind": lock.kind().to_string(),
        "holders": holders,
        "waiters": lock.waiters().len(),
    })
}

/// `queue`.
pub(crate) async fn queue(
    client: &Client,
    name: &str,
    kind: Kind,
    watch: bool,
    output: Output,
) -> Result<u8, Failure> {
    if !watch {
        let entries = match kind {
            Kind::Mutex => client.mutex(name).queue().await,
            Kind::RwLock => client.rw_lock(name).queue().await,
            Kind::Semaphore => client.semaphore(name, 1).queue().await,
            Kind::Election => client.election(name).queue().await,
        };
        for entry in entries? {
            output.line(&entry_line(&entry), &object(&entry))?;
        }
        return Ok(0);
    }
    let mut queue = match kind {
        Kind::Mutex => client.mutex(name).watch_queue(),
        Kind::RwLock => client.rw_lock(name).watch_queue(),
        Kind::Semaphore => client.semaphore(name, 1).watch_queue(),
        Kind::Election => client.election(name).watch_queue(),
    }?;
    until_signal(async {
        while let Some(entries) = queue.next().await {
            let lines: Vec<_> = entries.iter().map(entry_line).collect();
            let text = if lines.is_empty() { "empty".to_owned() } else { lines.join("; ") };
            let objects: Vec<_> = entries.iter().map(object).collect();
            output.line(&text, &json!({ "name": name, "queue": objects }))?;
        }
        Ok(0)
    })
    .await
}

fn entry_line(entry: &QueueEntry) -> String {
    let (position, owner) = (entry.position(), entry.owner());
    format!("{position}  {owner}  {}  token {}  {}", age(entry), entry.fencing_token(), entry.key())
}

/// `leader`.
pub(crate) async fn leader(client: &Client, name: &str, output: Output) -> Result<u8, Failure> {
    match client.election(name).leader().await? {
        Some(leader) => {
            print(&leader, output)?;
            Ok(0)
        }
        None => Err(Failure::new(ABSENT, format!("{name} has no leader"))),
    }
}

/// `observe`.
pub(crate) async fn observe(client: &Client, name: &str, output: Output) -> Result<u8, Failure> {
    let mut leaders = client.election(name).observe()?;
    until_signal(async {
        while let Some(leader) = leaders.next().await {
            print(&leader, output)?;
        }
        Ok(0)
    })
    .await
}

fn print(leader: &Leader, output: Output) -> Result<(), Failure> {
    let value = String::from_utf8_lossy(leader.value());
    let object = json!({
        "value": value, "token": leader.fencing_token().as_u64(), "key": leader.key(),
    });
    Ok(output.line(&value, &object)?)
}

/// Runs the work until it ends or a signal arrives. Returns the exit code.
pub(crate) async fn until_signal(
    work: impl Future<Output = Result<u8, Failure>>,
) -> Result<u8, Failure> {
    let mut signals = Signals::catch()?;
    tokio::select! {
        biased;
        signal = signals.ending() => {
            Ok(crate::process_group::Ended::Signal(signal.as_raw()).exit_code())
        }
        done = work => done,
    }
}
