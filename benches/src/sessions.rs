//! Many clients, each with its own session and lock.

use std::sync::Arc;

use distlock::{Client, LockGuard};
use distlock_testkit::clock::cpu;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    Result,
    backend::url_of,
    link::{Line, mark, tell},
    slice::Slice,
    subject::TTL,
    task::{NAME, Sessions},
    usage::memory,
};

/// How many are opened or closed at once.
const AT_ONCE: usize = 64;

pub(crate) async fn run(sessions: Sessions) -> Result<()> {
    match hold(&sessions).await {
        Ok((held, slice)) => {
            tell(Line::Done(Box::new(slice))).await?;
            close(held).await
        }
        Err(error) => tell(Line::Failed(error.to_string())).await.map(drop),
    }
}

/// Opens all, and holds their locks until it is ordered to stop. Each lock that was lost by then is
/// an error.
async fn hold(sessions: &Sessions) -> Result<(Vec<(Client, LockGuard)>, Slice)> {
    // Allocates what the process needs for any number of them.
    let (first, guard) = open(sessions, "first").await?;
    drop(guard);
    first.close().await?;
    let mut slice = Slice { rss_before: memory()?.0, ..Slice::default() };

    mark("ready").await?;
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    let (mut opening, mut held) = (JoinSet::new(), Vec::with_capacity(sessions.count));
    for place in sessions.from..sessions.from + sessions.count {
        // Before the task is created: otherwise the memory of pending tasks would count as memory
        // of the sessions.
        let slot = Arc::clone(&slots).acquire_owned().await;
        let sessions = sessions.clone();
        opening.spawn(async move {
            let _slot = slot;
            open(&sessions, &format!("{NAME}-{place}")).await.map_err(|error| error.to_string())
        });
        while let Some(opened) = opening.try_join_next() {
            held.push(opened??);
        }
    }
    while let Some(opened) = opening.join_next().await {
        held.push(opened??);
    }

    mark("held").await?;
    let busy = cpu();
    // Answered when they have been held for long enough.
    mark("measuring").await?;
    slice.cpu = cpu() - busy;
    slice.rss = memory()?.0;
    for (_, guard) in &held {
        // A lost lock is never valid again.
        if guard.is_valid() {
            slice.pairs += 1;
        } else {
            slice.failed(guard.lost().await);
        }
    }
    Ok((held, slice))
}

async fn open(sessions: &Sessions, name: &str) -> Result<(Client, LockGuard)> {
    let url = url_of(sessions.backend, &sessions.servers);
    let builder = Client::builder(&url).namespace(&sessions.namespace).session_ttl(TTL);
    let client = builder.connect().await?;
    let guard = client.mutex(name).lock().await?;
    Ok((client, guard))
}

async fn close(held: Vec<(Client, LockGuard)>) -> Result<()> {
    let closing = held.into_iter().map(|(client, guard)| async move {
        drop(guard);
        client.close().await
    });
    Ok(stream::iter(closing).buffer_unordered(AT_ONCE).try_collect().await?)
}
