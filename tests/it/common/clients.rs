//! What tests do with clients again and again.

use std::{error::Error as _, time::Duration};

use distlock::{Builder, Client, Error, FailoverBehavior, LockGuard, Mutex};

use super::{SOON, Waiter, eventually, within};

/// A server that waits for its disk may take longer than the default to open a session.
pub(crate) async fn connected(builder: Builder) -> Client {
    let connecting = builder.connect_timeout(SOON).connect();
    within(SOON * 2, "it connects", connecting).await.expect("connected")
}

/// Describes a client of a harness's URL, which may stand for a pool as well.
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

/// A client whose session has this TTL.
pub(crate) async fn connect(url: &str, ttl: Duration) -> Client {
    connected(builder(url).session_ttl(ttl)).await
}

/// Why no client connects.
pub(crate) async fn refused(builder: Builder) -> Error {
    within(SOON, "it is refused", builder.connect()).await.expect_err("refused")
}

/// What the source of an error says.
pub(crate) fn reason(error: &Error) -> String {
    error.source().expect("a reason").to_string()
}

/// All that an error says, down to its last source.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text += &format!(": {error}");
        next = error.source();
    }
    text
}

/// Acquires a lock in time.
pub(crate) async fn locked(client: &Client, name: &str) -> LockGuard {
    let lock = client.mutex(name);
    within(SOON, &format!("{name} is granted"), lock.lock()).await.expect("granted")
}

/// A lock that one client holds, while another one waits for it or is about to.
pub(crate) async fn contended(holder: &Client, waiter: &Client, name: &str) -> (LockGuard, Waiter) {
    let guard = holder.mutex(name).lock().await.expect("granted");
    (guard, Waiter::of(waiter, name))
}

/// Acquires a lock by as many sessions as that takes.
pub(crate) async fn locked_at_last(mutex: &Mutex) -> LockGuard {
    loop {
        if let Ok(guard) = mutex.lock().await {
            return guard;
        }
    }
}

/// Acquires a lock in time and releases it.
pub(crate) async fn take_turn(client: &Client, name: &str) {
    locked(client, name).await.unlock().await.expect("released");
}

/// Waits until so many hold a lock or wait for it.
pub(crate) async fn queue_of(client: &Client, name: &str, length: usize) {
    eventually(SOON, &format!("there are {length} in the queue"), async || {
        client.mutex(name).queue().await.is_ok_and(|queue| queue.len() == length)
    })
    .await;
}

/// Whether the store promises exclusion whatever becomes of its servers, and what it does after a
/// loss.
pub(crate) async fn promises(client: &Client) -> (bool, FailoverBehavior) {
    let durability = client.durability().await.expect("an answer");
    println!("{durability:?}");
    (durability.exclusive, durability.failover)
}

pub(crate) async fn close(clients: impl IntoIterator<Item = Client>) {
    for client in clients {
        client.close().await.expect("closed");
    }
}
