//! The subcommands with which an operator changes the locks of others.

use std::time::{Duration, Instant, UNIX_EPOCH};

use distlock::Client;
use humantime::format_rfc3339_seconds;
use serde_json::json;
use tokio::time::timeout_at;

use crate::{
    exit::{ABSENT, BUSY, Failure},
    inspect::until_signal,
    output::Output,
};

/// `ask`. The request lasts as long as this client's session, but at most ten minutes, so the
/// command waits until the holder has released the lock.
pub(crate) async fn ask(
    client: &Client,
    name: &str,
    reason: &str,
    wait: Option<Duration>,
    output: Output,
) -> Result<u8, Failure> {
    let mutex = client.mutex(name);
    // Read before the request, so that the holder's key is known if the holder releases at once.
    let mut holder = mutex.holder().await?;
    if !mutex.request_release(reason).await? {
        return Err(Failure::new(ABSENT, format!("{name} is not held")));
    }
    if holder.is_none() {
        // The lock was granted in between.
        holder = mutex.holder().await?;
    }
    let owner = holder.as_ref().map_or("the holder", |holder| holder.owner()).to_owned();
    output.note("asked", &format!("asked {owner} to release {name}"), json!({ "name": name }));
    let key = holder.map(|holder| holder.key().to_owned());
    let mut queue = mutex.watch_queue()?;
    let end = wait.and_then(|time| Instant::now().checked_add(time));
    let released = until_signal(async {
        while let Some(entries) = queue.next().await {
            let there = |key: &String| entries.iter().any(|entry| entry.key() == key);
            if !key.as_ref().is_some_and(there) {
                let object = json!({ "name": name, "owner": owner, "released": true });
                output.line(&format!("{owner} no longer holds {name}"), &object)?;
                return Ok(0);
            }
        }
        Ok(0)
    });
    let Some(end) = end else { return released.await };
    let late = || {
        let text = format!("{owner} has not released {name} in time: stop or evict the holder");
        Failure::new(BUSY, text)
    };
    timeout_at(end.into(), released).await.unwrap_or_else(|_| Err(late()))
}

/// `evict`.
pub(crate) async fn evict(
    client: &Client,
    key: &str,
    token: Option<u64>,
    yes: bool,
    output: Output,
) -> Result<u8, Failure> {
    if !yes {
        return Err(Failure::usage(
            "evict deletes the key of a holder or waiter. If the only holder is evicted, the next \
             waiter is granted the lock at once, while the evicted holder may still be working. To \
             request the release of a mutex instead, use ask. To evict, add --yes",
        ));
    }
    let evicted = match token {
        Some(token) => evict_hold(client, key, token).await?,
        None => client.evict(key).await?,
    };
    if evicted {
        output.line(&format!("evicted {key}"), &json!({ "key": key, "evicted": true }))?;
        return Ok(0);
    }
    Err(Failure::new(ABSENT, format!("no such key: {key}; list the queue again")))
}

/// Evicts the entry with this key if it still has this token.
async fn evict_hold(client: &Client, key: &str, token: u64) -> Result<bool, Failure> {
    let locks = client.locks().await?;
    let mut entries = locks.iter().flat_map(|lock| lock.holders().iter().chain(lock.waiters()));
    let Some(entry) = entries.find(|entry| entry.key() == key) else { return Ok(false) };
    let current = u64::from(entry.fencing_token());
    if current != token {
        let text = format!("{key} has the token {current}, not {token}; nothing was evicted");
        return Err(Failure::new(ABSENT, text));
    }
    Ok(client.evict_entry(entry).await?)
}

/// `clear`.
pub(crate) async fn clear(
    client: &Client,
    name: &str,
    wait: Option<Duration>,
    output: Output,
) -> Result<u8, Failure> {
    let guard = client.mutex(name).lock_timeout(wait.unwrap_or_default()).await?;
    let Some(guard) = guard else {
        let text = format!("{name} is busy: pass a --wait that is long enough for the run to end");
        return Err(Failure::new(BUSY, text));
    };
    let cleared = guard.clear_period().await;
    guard.unlock().await?;
    let Some(began) = cleared? else {
        return Err(Failure::new(ABSENT, format!("no run of {name} is recorded")));
    };
    let text = format!("{name} may run again; last run: {}", format_rfc3339_seconds(began));
    let since_epoch = began.duration_since(UNIX_EPOCH).unwrap_or_default();
    let object = json!({ "name": name, "cleared": true, "began_unix": since_epoch.as_secs() });
    output.line(&text, &object)?;
    Ok(0)
}

/// `permits`.
pub(crate) async fn permits(
    client: &Client,
    name: &str,
    set: Option<u32>,
    output: Output,
) -> Result<u8, Failure> {
    // The number passed here counts only if none was set and the queue is empty.
    let now = client.semaphore(name, 1).permits().await?;
    if let Some(number) = set {
        // The number passed here counts as replaced, unless it is the new number.
        client.semaphore(name, number).set_permits(number).await?;
    }
    let number = set.unwrap_or(now);
    output.line(&number.to_string(), &json!({ "name": name, "permits": number, "before": now }))?;
    Ok(0)
}
