//! The subcommands with which an operator changes the locks of others.

use std::time::{Duration, Instant, UNIX_EPOCH};

use distlock::Client;
use humantime::format_rfc3339_seconds;
use serde_json::json;
use tokio::time::timeout_at;

use crate::{
    exit::{ABSENT, BUSY, Failure, chain},
    inspect::until_signal,
    output::Output,
};

/// The first second of the year 10000, since the Unix epoch.
const YEAR_10000: u64 = 253_402_300_800;

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
    let hold = holder.map(|holder| (holder.key().to_owned(), holder.fencing_token().as_u64()));
    let mut queue = mutex.watch_queue()?;
    let end = wait.and_then(|time| Instant::now().checked_add(time));
    let released = until_signal(async {
        while let Some(entries) = queue.next().await {
            let entries = entries.iter().map(|entry| (entry.key(), entry.fencing_token().as_u64()));
            if !hold.as_ref().is_some_and(|hold| is_in(hold, entries)) {
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

/// Returns `true` if a hold is in a queue. On etcd, a client that acquires a lock again may use the
/// same key, with another token.
fn is_in<'a>(
    (key, token): &(String, u64),
    mut entries: impl Iterator<Item = (&'a str, u64)>,
) -> bool {
    entries.any(|entry| entry == (key.as_str(), *token))
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
    let released = guard.unlock().await;
    let Some(began) = cleared? else {
        return Err(Failure::new(ABSENT, format!("no run of {name} is recorded")));
    };
    let seconds = began.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let text = format!("{name} may run again; last run: {}", shown(seconds));
    let object = json!({ "name": name, "cleared": true, "began_unix": seconds });
    output.line(&text, &object)?;
    // The session repeats the release until the client closes. After that, the session expires.
    if let Err(error) = released {
        output.note("unconfirmed", &chain(&error), json!({ "name": name }));
    }
    Ok(0)
}

/// Returns a time for display, given in seconds since the Unix epoch. A wrong record can contain a
/// year of five digits, for which `humantime` would panic.
fn shown(seconds: u64) -> String {
    if seconds >= YEAR_10000 {
        return "after the year 9999".to_owned();
    }
    format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_hold_may_have_the_same_key() {
        let hold = ("/ns/a/1".to_owned(), 7);
        let is_in = |entries: &[(&str, u64)]| is_in(&hold, entries.iter().copied());
        assert!(is_in(&[("/ns/a/1", 7), ("/ns/a/2", 8)]));
        assert!(!is_in(&[("/ns/a/2", 8), ("/ns/a/1", 9)]));
        assert!(!is_in(&[]));
    }

    #[test]
    fn wrong_times_are_shown() {
        assert_eq!(shown(0), "1970-01-01T00:00:00Z");
        assert_eq!(shown(YEAR_10000 - 1), "9999-12-31T23:59:59Z");
        for wrong in [YEAR_10000, u64::MAX / 1_000, u64::MAX] {
            assert_eq!(shown(wrong), "after the year 9999");
        }
    }
}
