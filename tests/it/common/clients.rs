//! Client operations that many tests use.

use std::{error::Error as _, time::Duration};

use distlock::{Builder, Client, Error, FailoverBehavior, LockGuard, Mutex};

use super::{SOON, Waiter, eventually, within};

/// Connects a client. The connect timeout is longer than the default, since a server that waits for
/// its disk may take long to open a session.
pub(crate) async fn connected(builder: Builder) -> Client {
    let connecting = builder.connect_timeout(SOON).connect();
    within(SOON * 2, "the client connects", connecting).await.expect("connected")
}

/// Describes a client for a harness's URL. A URL with the suffix of a pool yields a client with a
/// pool.
pub(crate) fn builder(url: &str) -> Builder {
    #[cfg(feature = "postgres")]
    if let Some(plain) = url.strip_suffix(super::hosts::POOLED)
        && plain.starts_with("postgres:")
    {
        return Client::builder(plain).postgres_pool(super::hosts::Hosts::of(plain));
    }
    #[cfg(feature = "mysql")]
    if let Some(plain) = url.strip_suffix(super::hosts::POOLED)
        && plain.starts_with("mysql:")
    {
        return Client::builder(plain).mysql_pool(super::hosts::Hosts::of(plain));
    }
    Client::builder(url)
}

/// Connects a client with the given session TTL.
pub(crate) async fn connect(url: &str, ttl: Duration) -> Client {
    connected(builder(url).session_ttl(ttl)).await
}

/// Returns the error of a connect that must fail.
pub(crate) async fn refused(builder: Builder) -> Error {
    within(SOON, "the connect is refused", builder.connect()).await.expect_err("refused")
}

/// Returns the text of an error's source.
pub(crate) fn reason(error: &Error) -> String {
    error.source().expect("a reason").to_string()
}

/// Returns the texts of an error and all its sources.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text += &format!(": {error}");
        next = error.source();
    }
    text
}

/// Acquires a lock. Fails unless it is granted soon.
pub(crate) async fn locked(client: &Client, name: &str) -> LockGuard {
    let lock = client.mutex(name);
    within(SOON, &format!("{name} is granted"), lock.lock()).await.expect("granted")
}

/// Acquires a lock with one client, while another one waits for it or is about to.
pub(crate) async fn contended(holder: &Client, waiter: &Client, name: &str) -> (LockGuard, Waiter) {
    let guard = holder.mutex(name).lock().await.expect("granted");
    (guard, Waiter::of(waiter, name))
}

/// Acquires a lock, and retries after every error.
pub(crate) async fn locked_at_last(mutex: &Mutex) -> LockGuard {
    loop {
        if let Ok(guard) = mutex.lock().await {
            return guard;
        }
    }
}

/// Acquires a lock and releases it. Fails unless it is granted soon.
pub(crate) async fn take_turn(client: &Client, name: &str) {
    locked(client, name).await.unlock().await.expect("released");
}

/// Waits until a lock's queue, holders included, has `length` entries.
pub(crate) async fn queue_of(client: &Client, name: &str, length: usize) {
    eventually(SOON, &format!("there are {length} in the queue"), async || {
        client.mutex(name).queue().await.is_ok_and(|queue| queue.len() == length)
    })
    .await;
}

/// Returns whether the store guarantees exclusion despite server failures, and how it behaves after
/// a failover.
pub(crate) async fn promises(client: &Client) -> (bool, FailoverBehavior) {
    let durability = client.durability().await.expect("a reply");
    println!("{durability:?}");
    (durability.exclusive, durability.failover)
}

pub(crate) async fn close(clients: impl IntoIterator<Item = Client>) {
    for client in clients {
        client.close().await.expect("closed");
    }
}
