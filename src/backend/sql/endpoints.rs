//! The servers of a URL, of which one can be written to.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::{
    backend::{Result, StoreError},
    runtime::clock::sleep,
};

/// This one cannot be written to.
pub(crate) fn not_primary(endpoint: &str, what: &str) -> StoreError {
    let reason = format!("{endpoint} {what}: locks are kept by the primary, name that");
    StoreError::Unavailable(reason.into())
}

#[derive(Debug)]
pub(crate) struct Endpoints {
    all: Vec<String>,
    /// The place of the one to begin with.
    first: AtomicUsize,
}

impl Endpoints {
    pub(crate) fn new(all: Vec<String>) -> Self {
        Self { all, first: AtomicUsize::new(0) }
    }

    /// Tries each endpoint once, the one that was in use last first. One that does not answer is
    /// not given up while the next one is tried: it may be only slow.
    pub(crate) async fn connect<'a, L, A>(
        &'a self,
        patience: Duration,
        connect_to: impl Fn(&'a str) -> A + Send,
    ) -> Result<L>
    where
        A: Future<Output = Result<L>> + Send,
    {
        let endpoints = &self.all;
        let count = endpoints.len();
        let share = patience / u32::try_from(count).unwrap_or(u32::MAX);
        let first = self.first.load(Ordering::Relaxed);
        let mut attempts = FuturesUnordered::new();
        let mut over = std::pin::pin!(sleep(patience));
        let (mut tried, mut failed) = (0, None::<StoreError>);
        loop {
            if tried < count {
                let place = (first + tried) % count;
                let attempt = connect_to(&endpoints[place]);
                attempts.push(async move { (place, attempt.await) });
                tried += 1;
            }
            tokio::select! {
                biased;
                Some((place, connected)) = attempts.next() => match connected {
                    Ok(link) => {
                        self.first.store(place, Ordering::Relaxed);
                        return Ok(link);
                    }
                    // Who is refused by one is told, even if others do not answer at all.
                    Err(error) if !matches!(failed, Some(StoreError::Denied(_))) => {
                        failed = Some(error);
                    }
                    Err(_) => {}
                },
                () = sleep(share), if tried < count => {}
                () = &mut over => {
                    let silent = || format!("{}: no answer", endpoints[first % count]);
                    return Err(failed.unwrap_or_else(|| {
                        StoreError::Unavailable(silent().into())
                    }));
                }
            }
            if let Some(error) = failed.take_if(|_| attempts.is_empty() && tried == count) {
                return Err(error);
            }
        }
    }

    /// The one in use has fallen silent: begin with the next one.
    pub(crate) fn leave(&self) {
        self.first.fetch_add(1, Ordering::Relaxed);
    }
}
